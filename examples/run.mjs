// Runs an example with one command: installs what it needs, starts Headgate with the example's rules, and ends both. Two processes of a web
// server share 60 requests, which shows their common limit. With HEADGATE=host:port a Headgate that runs already is asked.
//   node examples/run.mjs express

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const EXAMPLES = dirname(fileURLToPath(import.meta.url));
const ROOT = resolve(EXAMPLES, "..");
const REQUESTS = 60;
const START_MS_MAX = 60_000;
/** Of an example without a package.json, by its language: the file that tells, and the command that builds and runs it. */
const LANGUAGES = [{ mark: "go.mod", command: ["go", "run", "."] }];

const children = [];
process.on("exit", () => {
  for (const child of children) child.kill();
});
process.once("SIGINT", () => process.exit(130)).once("SIGTERM", () => process.exit(143));
try {
  process.exit(await run(resolve(EXAMPLES, process.argv[2] ?? "")));
} catch (error) {
  console.error(error.message);
  process.exit(1);
}

/** Resolves to the exit code. */
async function run(folder) {
  const language = LANGUAGES.find(({ mark }) => existsSync(join(folder, mark)));
  if (language === undefined && !existsSync(join(folder, "package.json")))
    throw new Error("usage: node examples/run.mjs NAME, a folder of examples");
  if (!existsSync(join(ROOT, "dist/main.js"))) npm(ROOT, "run", "--silent", "build");
  if (language !== undefined) return runOther(folder, language.command);
  if (!existsSync(join(folder, "node_modules"))) npm(folder, "install", "--no-audit", "--no-fund");
  const { scripts } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = join(folder, scripts.start.replace(/^node /, ""));
  const env = { HEADGATE: process.env.HEADGATE ?? (await startHeadgate(join(folder, "rules"))) };
  if (file.endsWith("server.mjs")) return share([await startServer(file, env), await startServer(file, env)]);
  const [code] = await once(start([file], env), "exit");
  return code ?? 1;
}

/** Resolves to the exit code of an example in another language. */
async function runOther(cwd, [program, ...args]) {
  const HEADGATE = process.env.HEADGATE ?? (await startHeadgate(join(cwd, "rules")));
  const child = spawn(program, args, { cwd, env: { ...process.env, HEADGATE }, stdio: "inherit" });
  children.push(child);
  const [code] = await once(child, "exit");
  return code ?? 1;
}

/** Resolves to its gRPC address. */
async function startHeadgate(ownRules) {
  const [http, grpc] = [await freePort(), await freePort()];
  const rules = existsSync(ownRules) ? ownRules : join(ROOT, "deploy/rules");
  const env = {
    RULES_DIR: rules,
    HOST: "127.0.0.1",
    GRPC_HOST: "127.0.0.1",
    PORT: http,
    GRPC_PORT: grpc,
    LOG_LEVEL: "warn",
  };
  await answering(start([join(ROOT, "dist/main.js"), "serve"], env), `http://127.0.0.1:${http}/readyz`);
  return `127.0.0.1:${grpc}`;
}

/** Resolves to its URL. */
async function startServer(file, env) {
  const port = await freePort();
  await answering(start([file], { ...env, PORT: port }), `http://127.0.0.1:${port}/healthz`);
  return `http://127.0.0.1:${port}/`;
}

async function share(urls) {
  const counts = new Map();
  for (let i = 0; i < REQUESTS; i++) {
    const { status } = await fetch(urls[i % urls.length]);
    counts.set(status, (counts.get(status) ?? 0) + 1);
  }
  const sums = [...counts].map(([status, count]) => `${count} times ${status}`).join(", ");
  console.log(`${REQUESTS} requests to ${urls.length} processes: ${sums}`);
  return 0;
}

function start(args, env) {
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...env },
    stdio: ["ignore", "inherit", "inherit"],
  });
  children.push(child);
  return child;
}

async function answering(child, url) {
  for (const endMs = Date.now() + START_MS_MAX; Date.now() < endMs && child.exitCode === null; ) {
    const response = await fetch(url).catch(() => undefined);
    if (response !== undefined && response.status < 500) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${child.spawnargs.slice(1).join(" ")} did not start`);
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return String(port);
}

function npm(cwd, ...args) {
  execFileSync("npm", args, { cwd, stdio: ["ignore", "inherit", "inherit"] });
}
