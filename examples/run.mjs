// Runs an example with one command: installs what it needs, starts Headgate with the example's rules, and ends both. Two processes of a web
// server, or a proxy in front of a service, get 60 requests, which shows their common limit. With HEADGATE=host:port a Headgate that runs
// already is asked: on its gRPC port, by a proxy on its HTTP port.
//   node examples/run.mjs express

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const EXAMPLES = dirname(fileURLToPath(import.meta.url));
const ROOT = resolve(EXAMPLES, "..");
const REQUESTS = 60;
const START_MS_MAX = 60_000;
/** Of an example without a package.json, by its language: the file that tells, and the command that builds and runs it. */
const LANGUAGES = [
  { mark: "go.mod", command: ["go", "run", "."] },
  {
    mark: "requirements.txt",
    packages: ".packages",
    install: ["python3", "-m", "pip", "install", "--quiet", "--target", ".packages", "-r", "requirements.txt"],
    command: ["python3", "main.py"],
    env: { PYTHONPATH: ".packages" },
  },
];
const PROXIES = [
  { mark: "nginx.conf", command: ["nginx", "-e", "stderr", "-p", ".", "-c", "nginx.conf", "-g", "daemon off;"] },
  { mark: "haproxy.cfg", command: ["haproxy", "-f", "haproxy.cfg"] },
];
/** Where the files of proxies expect Headgate, the service behind them, and their own callers. */
const PROXY_ADDRESSES = { headgate: "127.0.0.1:8080", service: "127.0.0.1:3000", own: "127.0.0.1:10000" };

const children = [];
const folders = [];
process.on("exit", () => {
  for (const child of children) child.kill();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
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
  const has = ({ mark }) => existsSync(join(folder, mark));
  const [language, proxy] = [LANGUAGES.find(has), PROXIES.find(has)];
  if (language === undefined && proxy === undefined && !has({ mark: "package.json" }))
    throw new Error(`usage: node examples/run.mjs NAME, one of ${runnable().join(", ")}`);
  if (!existsSync(join(ROOT, "dist/main.js"))) npm(ROOT, "run", "--silent", "build");
  if (language !== undefined) return runOther(folder, language);
  if (proxy !== undefined) return runProxy(folder, proxy.command);
  if (!existsSync(join(folder, "node_modules"))) npm(folder, "install", "--no-audit", "--no-fund");
  const { scripts } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = join(folder, scripts.start.replace(/^node /, ""));
  const env = { HEADGATE: process.env.HEADGATE ?? (await startHeadgate(join(folder, "rules"))).grpc };
  if (file.endsWith("server.mjs")) return share([await startServer(file, env), await startServer(file, env)]);
  const [code] = await once(start([file], env), "exit");
  return code ?? 1;
}

function runnable() {
  const marks = ["package.json", ...LANGUAGES.map(({ mark }) => mark), ...PROXIES.map(({ mark }) => mark)];
  return readdirSync(EXAMPLES).filter((name) => marks.some((mark) => existsSync(join(EXAMPLES, name, mark))));
}

/** Resolves to the exit code of an example in another language. */
async function runOther(cwd, { install, packages, command, env }) {
  if (install !== undefined && !existsSync(join(cwd, packages))) {
    const [code] = await once(startProgram(install, { cwd }), "exit");
    if (code !== 0) throw new Error(`${install.join(" ")} failed`);
  }
  const HEADGATE = process.env.HEADGATE ?? (await startHeadgate(join(cwd, "rules"))).grpc;
  const [code] = await once(startProgram(command, { cwd, env: { ...process.env, ...env, HEADGATE } }), "exit");
  return code ?? 1;
}

/** Runs a proxy with a copy of its files that has free ports, in front of a service that answers 200. */
async function runProxy(files, command) {
  const service = createHttpServer((_, response) => response.end("served\n")).listen(0, "127.0.0.1");
  await once(service, "listening");
  const addresses = {
    headgate: process.env.HEADGATE ?? (await startHeadgate(join(files, "rules"))).http,
    service: `127.0.0.1:${service.address().port}`,
    own: `127.0.0.1:${await freePort()}`,
  };
  const cwd = mkdtempSync(join(tmpdir(), "headgate-example-"));
  folders.push(cwd);
  cpSync(files, cwd, { recursive: true });
  for (const name of readdirSync(cwd)) {
    let text = readFileSync(join(cwd, name), "utf8");
    for (const [which, address] of Object.entries(PROXY_ADDRESSES)) text = text.replaceAll(address, addresses[which]);
    writeFileSync(join(cwd, name), text);
  }
  const url = `http://${addresses.own}/`;
  await answering(startProgram(command, { cwd }), url);
  const code = await share([url], command[0]);
  const refused = await fetch(url);
  if (refused.status === 429) console.log(`429 with Retry-After: ${refused.headers.get("retry-after")}`);
  return code;
}

function startProgram([program, ...args], options) {
  const child = spawn(program, args, { stdio: ["ignore", "inherit", "inherit"], ...options });
  child.once("error", ({ code }) => {
    console.error(code === "ENOENT" ? `this example needs ${program} on the PATH` : `${program}: ${code}`);
    process.exit(1);
  });
  children.push(child);
  return child;
}

/** Resolves to its addresses. */
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
  return { grpc: `127.0.0.1:${grpc}`, http: `127.0.0.1:${http}` };
}

/** Resolves to its URL. */
async function startServer(file, env) {
  const port = await freePort();
  await answering(start([file], { ...env, PORT: port }), `http://127.0.0.1:${port}/healthz`);
  return `http://127.0.0.1:${port}/`;
}

async function share(urls, to = `${urls.length} processes`) {
  const counts = new Map();
  for (let i = 0; i < REQUESTS; i++) {
    const { status } = await fetch(urls[i % urls.length]);
    counts.set(status, (counts.get(status) ?? 0) + 1);
  }
  const sums = [...counts].map(([status, count]) => `${count} times ${status}`).join(", ");
  console.log(`${REQUESTS} requests to ${to}: ${sums}`);
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
