// All packages as callers get them: packed, installed in a project elsewhere, loaded by `import` and by `require`, compiled
// strictly under each setting that TypeScript has for that, and asking the service of the installed package.

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { PACKAGES } from "../support/own-packages.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { complaintsAbout, packed, projectWith } from "../support/strangers.ts";

const INSTALL_MS = 120_000;
const ROOT = resolve(import.meta.dirname, "../..");
const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { readonly version: string };

/** The body of a program that has `createLimiter` and `CheckFailure`, and is told the server's address. */
const ASK = `
const limiter = createLimiter({ servers: [process.argv[2]], deadlineMs: 20_000, onFailure: "throw" });
const ask = (descriptor) => limiter.check({ domain: "edge", descriptors: [descriptor] });
async function main() {
  const allowed = await ask({ remote_address: process.argv[3] });
  const refused = await ask({ entries: { remote_address: process.argv[3] }, hits: 51 });
  limiter.close();
  const failure = await ask({ remote_address: process.argv[3] }).catch((error) => error);
  console.log(allowed.allowed, allowed.remaining, refused.allowed, failure instanceof CheckFailure, failure.code);
}
main();`;

const TYPED = `
import { type CheckDecision, CheckFailure, createLimiter, expressLimit, type LimiterOptions } from "@headgate/client";
import { headgateStore as expressStore } from "@headgate/client/express-rate-limit";
import { headgateStore as fastifyStore } from "@headgate/client/fastify-rate-limit";
const options: LimiterOptions = { servers: ["a:1"], onDegraded: ({ code }) => code.toLowerCase() };
export const limiter = createLimiter(options);
export const decision: Promise<CheckDecision> = limiter.check({ domain: "edge", descriptors: [{ user: "a", level: 3 }] });
export async function spend(): Promise<number | undefined> {
  await using held = await limiter.reserve({ domain: "edge", entries: { tenant: "acme" }, amount: 500 });
  return held.allowed ? (await held.settle(180)).remaining : held.retryAfterSeconds;
}
export const middleware = expressLimit(limiter, ({ ip }) => ({ domain: "edge", descriptors: [{ ip: ip ?? "" }] }));
export const total = expressStore(limiter, { domain: "edge", entry: "api" }).increment("a").then(({ totalHits }) => totalHits);
new (fastifyStore(limiter, { domain: "edge", entry: "api", ruleDecides: true }))({}).incr("a", () => {}, 1_000, 5);
export const isFailure = (error: unknown) => error instanceof CheckFailure;
`;

const SETTINGS = [
  { name: "NodeNext", options: { module: "NodeNext" } },
  { name: "Node16, whose CommonJS can load no ES module", options: { module: "Node16" } },
  { name: "a bundler's", options: { module: "ESNext", moduleResolution: "Bundler" } },
  { name: "CommonJS for whatever", options: { module: "CommonJS", moduleResolution: "Bundler" } },
];

/** Projects: with the packages for other programs, and with the service's. */
let project: string;
let ofService: string;
let service: ServiceProcess;

beforeAll(async () => {
  project = projectWith(...PACKAGES.map(packed));
  ofService = projectWith(packed("."));
  service = await startService({}, { command: [join(ofService, "node_modules/.bin/headgate"), "serve"] });
}, INSTALL_MS);

describe("@headgate/client, installed elsewhere", () => {
  // Promise(clients): The client loads by `import` and `require` wherever it is installed, and is one module.
  test.each([
    { way: "import", file: "ask.mjs", head: 'import { CheckFailure, createLimiter } from "@headgate/client";' },
    { way: "require", file: "ask.cjs", head: 'const { CheckFailure, createLimiter } = require("@headgate/client");' },
  ])("asks a service when it is loaded by $way", ({ way, file, head }) => {
    writeFileSync(join(project, file), head + ASK);
    const args = [file, `127.0.0.1:${service.grpcPort}`, way];
    const said = execFileSync(process.execPath, args, { cwd: project, encoding: "utf8" });
    expect(said).toBe("true 49 false true CANCELLED\n");
  });

  test.each([
    ["CheckFailure", "@headgate/client"],
    ["headgateStore", "@headgate/client/express-rate-limit"],
    ["headgateStore", "@headgate/client/fastify-rate-limit"],
  ])("is one module, whichever way it is loaded: %s of %s", (name, path) => {
    const program = `
      import { createRequire } from "node:module";
      import { ${name} } from "${path}";
      console.log(typeof ${name}, createRequire(import.meta.url)("${path}").${name} === ${name});`;
    writeFileSync(join(project, "both.mjs"), program);
    expect(execFileSync(process.execPath, ["both.mjs"], { cwd: project, encoding: "utf8" })).toBe("function true\n");
  });

  // Promise(clients): The client's types compile under every setting of a strict project, without Node.js's types.
  test.each(SETTINGS)("compiles strictly in ES modules and CommonJS under the setting $name", ({ options }) => {
    const files = ["typed.mts", "typed.cts", "typed.ts"];
    for (const file of files) writeFileSync(join(project, file), TYPED);
    expect(complaintsAbout(project, files, options)).toBe("");
  });
});

// What they do is in their own tests, and in client-code.test.ts; here it is that they load with what they declare.
test.each([
  { name: "@headgate/fast-lane", exports: ["DEFAULT_BOUNDS", "GrpcStatus", "serve"] },
  { name: "@headgate/verify", exports: ["junitText", "readPlan", "reportText", "verify"] },
])("$name loads where it is installed, by its door alone", ({ name, exports }) => {
  const program = `console.log(...Object.keys(await import("${name}"))); await import("${name}/dist/plan.js");`;
  const run = spawnSync(process.execPath, ["--input-type=module", "--eval", program], {
    cwd: project,
    encoding: "utf8",
  });
  expect(run.stdout).toBe(`${exports.join(" ")}\n`);
  expect(run.stderr).toContain("ERR_PACKAGE_PATH_NOT_EXPORTED");
});

test.each([
  ...PACKAGES.map((path) => ({ name: path.replace("packages", "@headgate"), folder: () => project })),
  { name: "headgate", folder: () => ofService },
])("$name comes with its licence and what its README leads to, without sources or tests", ({ name, folder }) => {
  const root = join(folder(), "node_modules", name);
  expect(readFileSync(join(root, "LICENSE"), "utf8")).toBe(readFileSync(join(ROOT, "LICENSE"), "utf8"));
  const links = [...readFileSync(join(root, "README.md"), "utf8").matchAll(/\]\((?!https?:)([^)#]+)/g)];
  expect(links.map(([, path = ""]) => path).filter((path) => !existsSync(join(root, path)))).toEqual([]);
  expect(["src", "test", "tsconfig.json"].filter((path) => existsSync(join(root, path)))).toEqual([]);
});

describe("@headgate/client", () => {
  test("needs grpc-js alone, and its stores the middleware that they are for", () => {
    const manifest = JSON.parse(readFileSync(join(ROOT, "packages/client/package.json"), "utf8")) as Record<
      string,
      object
    >;
    expect(Object.keys(manifest.dependencies ?? {})).toEqual(["@grpc/grpc-js"]);
    const peers = ["@fastify/rate-limit", "express-rate-limit"];
    expect(Object.keys(manifest.peerDependencies ?? {})).toEqual(peers);
    expect(manifest.peerDependenciesMeta).toEqual(Object.fromEntries(peers.map((peer) => [peer, { optional: true }])));
    expect(manifest.optionalDependencies).toBeUndefined();
  });
});

describe("headgate, installed elsewhere", () => {
  const run = (...args: string[]) =>
    execFileSync(join(ofService, "node_modules/.bin/headgate"), args, { encoding: "utf8" });

  test("says its version and checks rules by its command", () => {
    expect(run("--version")).toBe(`${version}\n`);
    expect(run("check", join(ROOT, "deploy/rules"))).toMatch(/^ok: 1 domain/);
  });

  test("serves the rules that come with it", () => {
    const server = `127.0.0.1:${service.grpcPort}`;
    expect(run("ask", "--server", server, "--domain", "edge", "remote_address=203.0.113.7")).toContain(
      "per-address: 49 of 50 left",
    );
  });
});
