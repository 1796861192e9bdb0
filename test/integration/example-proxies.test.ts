// The examples of proxies and of Python: run as people run them where their programs can be had, else parsed and compiled.

import { execFile, execFileSync } from "node:child_process";
import { cpSync, readFileSync, symlinkSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { requireProgram } from "../support/built-program.ts";
import { haproxy, luac, nginx, unpackedLibraries } from "../support/debian-program.ts";
import { FETCH_MS, pythonPackage } from "../support/deploy-tools.ts";
import { addressOf } from "../support/limiters.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { startTestApp } from "../support/test-app.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const EXAMPLES = join(ROOT, "examples");
const RULES = readFileSync(join(ROOT, "deploy/rules/edge.yaml"), "utf8");

/** What the command says of the example in `folder`. */
async function said(folder: string, env: NodeJS.ProcessEnv): Promise<string> {
  const args = [join(EXAMPLES, "run.mjs"), folder];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { env: { ...process.env, ...env } });
  return stderr + stdout;
}

/** The environment in which a program, perhaps an unpacked one, is found by its name. */
function withProgram(path: string): NodeJS.ProcessEnv {
  if (!path.includes("/")) return {};
  return { ...unpackedLibraries(path), PATH: `${dirname(path)}${delimiter}${process.env.PATH}` };
}

beforeAll(requireProgram);

describe.each([
  { name: "nginx", program: nginx },
  { name: "haproxy", program: haproxy },
])("$name", ({ name, program }) => {
  test(
    "refuses what Headgate refuses, and says when to come back",
    async () => {
      const env = withProgram(program());
      const app = await startTestApp(RULES);
      const out = await said(join(EXAMPLES, name), { ...env, HEADGATE: `127.0.0.1:${app.httpPort}` });
      const [, passed, refused] = /^60 requests to \w+: (\d+) times 200, (\d+) times 429$/m.exec(out) ?? [];
      expect(Number(passed) + Number(refused), out).toBe(60);
      // Some tokens come back meanwhile, and an answer that is late on a busy machine lets its request pass.
      expect(Number(passed), out).toBeGreaterThanOrEqual(50);
      expect(Number(refused), out).toBeGreaterThan(2);
      expect(out).toMatch(/^429 with Retry-After: 1$/m);
    },
    FETCH_MS,
  );

  test("lets all requests pass while Headgate is away", async () => {
    const out = await said(join(EXAMPLES, name), { ...withProgram(program()), HEADGATE: "127.0.0.1:1" });
    expect(out).toMatch(/^60 requests to \w+: 60 times 200$/m);
  });
});

test(
  "python asks without the client, and the limit holds",
  async () => {
    const folder = join(temporaryFolder("headgate-example"), "python");
    cpSync(join(EXAMPLES, "python"), folder, { recursive: true, filter: (path) => !path.includes(".packages") });
    symlinkSync(await pythonPackage("example-python"), join(folder, ".packages"));
    const app = await startTestApp(RULES);
    const out = await said(folder, { HEADGATE: addressOf(app) });
    const counts = /^60 calls: (\d+) allowed, (\d+) refused, (\d+) without an answer$/m.exec(out) ?? [];
    const [allowed = 0, refused = 0, unanswered = 0] = counts.slice(1).map(Number);
    expect(allowed + refused + unanswered, out).toBe(60);
    expect(allowed, out).toBeGreaterThanOrEqual(50 - unanswered);
    expect(refused, out).toBeGreaterThan(0);
  },
  FETCH_MS,
);

describe("traefik, not run itself", () => {
  const file = (name: string): string => readFileSync(join(EXAMPLES, "traefik", name), "utf8");

  test("has files that name each other's parts", () => {
    const { entryPoints, experimental, providers } = parse(file("traefik.yaml"));
    const { routers, middlewares, services } = parse(file(providers.file.filename)).http;
    expect(Object.keys(entryPoints)).toEqual(routers.all.entryPoints);
    expect([...Object.keys(middlewares), ...Object.keys(services)]).toEqual([
      ...routers.all.middlewares,
      routers.all.service,
    ]);
    expect(Object.keys(middlewares.limited.plugin)).toEqual(Object.keys(experimental.localPlugins));
    const { moduleName } = experimental.localPlugins.headgate;
    const manifest = parse(file(`plugins-local/src/${moduleName}/.traefik.yml`));
    expect([manifest.import, manifest.testData]).toEqual([moduleName, middlewares.limited.plugin.headgate]);
  });

  test("has a plugin that refuses what Headgate refuses, and passes requests while it is away", async () => {
    const app = await startTestApp(RULES);
    const cwd = join(EXAMPLES, "traefik/plugins-local/src/example.org/headgate");
    const env = { ...process.env, HEADGATE: `127.0.0.1:${app.httpPort}` };
    const { stdout } = await promisify(execFile)("go", ["test", "-count=1", "./..."], { cwd, env });
    expect(stdout).toMatch(/^ok\s+example\.org\/headgate/);
  });
});

test(
  "kong, not run itself, has a file whose Lua compiles and asks for what its sandbox must allow",
  () => {
    const text = readFileSync(join(EXAMPLES, "kong/kong.yaml"), "utf8");
    const [service] = parse(text).services;
    const [{ name, config }] = service.plugins;
    expect([name, config.access.length]).toEqual(["pre-function", 1]);
    const [code] = config.access as readonly string[];
    const needed = [...(code ?? "").matchAll(/require\("([\w.]+)"\)/g)].map(([, module]) => module);
    const allowed = /SANDBOX_REQUIRES=(\S+)/.exec(text)?.[1]?.split(",");
    expect(needed.toSorted()).toEqual(allowed?.toSorted());
    const path = luac();
    execFileSync(path, ["-p", "-"], { input: code ?? "", env: { ...process.env, ...withProgram(path) } });
  },
  FETCH_MS,
);
