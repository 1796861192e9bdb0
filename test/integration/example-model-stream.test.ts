// examples/model-stream as it stands: run as people run it, and its metered stream under calls that end in every way.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { Limiter } from "../../packages/client/src/client.ts";
import { ownProcess } from "../support/child-processes.ts";
import { endWithTest } from "../support/ends.ts";
import { addressOf, openLimiter } from "../support/limiters.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const EXAMPLE = join(ROOT, "examples/model-stream");
// Per day, so that nothing comes back while a slow machine runs this.
const RULES = readFileSync(join(EXAMPLE, "rules/models.yaml"), "utf8").replace("unit: minute", "unit: day");

interface Piece {
  readonly text: string;
  readonly tokens: number;
}
type OpenStream = (maxTokens: number) => AsyncIterable<Piece>;
interface Example {
  readonly meteredStream: (
    limiter: Limiter,
    asked: { readonly tenant: string; readonly maxTokens: number },
    openStream: OpenStream,
  ) => AsyncGenerator<string>;
  readonly startFakeModel: () => Promise<{ readonly url: string; readonly stop: () => Promise<void> }>;
  readonly streamFrom: (url: string, body: object) => AsyncIterable<Piece>;
}

let app: TestApp;
let limiter: Limiter;
let example: Example;
let model: Awaited<ReturnType<Example["startFakeModel"]>>;
beforeAll(async () => {
  app = await startTestApp(RULES);
  limiter = openLimiter([addressOf(app)], { deadlineMs: 10_000, onFailure: "throw" });
  const parts = ["metered-stream.mjs", "fake-model.mjs"].map((file) => import(join(EXAMPLE, file)));
  example = Object.assign({}, ...(await Promise.all(parts))) as Example;
  model = await example.startFakeModel();
  endWithTest(() => model.stop());
});

/** What the tenant has used, of 1,000, and how many of its places are free. */
async function standing(tenant: string): Promise<{ used: number; free: number }> {
  const entries = [{ key: "tenant", value: tenant }];
  const peek = await app.ask({ domain: "models", descriptors: [{ entries, hits_addend: { value: 0 } }] });
  const asked = { domain: "models", entries: { tenant }, amount: 1 };
  const held = await Promise.all([1, 2, 3, 4].map(() => limiter.reserve(asked)));
  for (const each of held) await each.cancel();
  return { used: 1_000 - (peek.statuses[0]?.limit_remaining ?? 0), free: held.filter(({ allowed }) => allowed).length };
}

/** Reads pieces of a stream to its end, or as many. */
async function read(stream: AsyncGenerator<string>, pieces = Number.POSITIVE_INFINITY): Promise<number> {
  let count = 0;
  for await (const _text of stream) if (++count >= pieces) break;
  return count;
}

const open = (tenant: string, body: object, maxTokens = 300) =>
  example.meteredStream(limiter, { tenant, maxTokens }, (max) =>
    example.streamFrom(model.url, { max_tokens: max, ...body }),
  );

test("prints what its README says, as a program of its own", async () => {
  const folder = temporaryFolder("headgate-example");
  cpSync(EXAMPLE, folder, { recursive: true });
  mkdirSync(join(folder, "node_modules/@headgate"), { recursive: true });
  symlinkSync(join(ROOT, "packages/client"), join(folder, "node_modules/@headgate/client"));
  const env = { ...process.env, HEADGATE: `127.0.0.1:${app.grpcPort}` };
  const child = spawn(process.execPath, ["chat.mjs"], { cwd: folder, env, stdio: ["ignore", "pipe", "inherit"] });
  ownProcess(child);
  let out = "";
  child.stdout.on("data", (text) => {
    out += text;
  });
  await once(child, "close");
  const lines = out.trimEnd().split("\n");
  expect(lines.slice(0, 4)).toEqual([1, 2, 3, 4].map((call) => `call ${call}: 190 words`));
  for (const line of lines.slice(4)) expect(line).toMatch(/^call [56]: token_bucket_exceeded: again in \d+ s$/);
  expect(lines.length).toBe(6);
});

describe("a metered stream", () => {
  test("that ends pays what it has used", async () => {
    expect(await read(open("whole", { wants: 42 }))).toBe(42);
    expect(await standing("whole")).toEqual({ used: 52, free: 3 });
  });

  test("that is left pays what it has used until then", async () => {
    expect(await read(open("left", { wants: 90 }), 7)).toBe(7);
    expect(await standing("left")).toEqual({ used: 17, free: 3 });
  });

  test("whose model fails pays what it has used until then", async () => {
    await expect(read(open("failed", { wants: 90, fails_after: 5 }))).rejects.toThrow();
    const { used, free } = await standing("failed");
    expect([used <= 15, free]).toEqual([true, 3]);
  });

  test("is given no more by its model than is held", async () => {
    expect(await read(open("greedy", { wants: 5_000 }, 5_000))).toBe(390);
    expect((await standing("greedy")).used).toBe(400);
  });

  // Promise(llm): The example's streams pay for what they received, however they end, and overspend nothing.
  test("never overspends with others, however many begin at once", async () => {
    const streams = Array.from({ length: 30 }, () =>
      read(open("crowd", { wants: 350 }, 360)).catch((error: Error) => error.message),
    );
    const ends = await Promise.all(streams);
    const passed = ends.filter((end) => end === 350).length;
    expect(passed).toBeGreaterThan(0);
    expect(await standing("crowd")).toEqual({ used: passed * 360, free: 3 });
    expect(passed * 360).toBeLessThanOrEqual(1_000);
    for (const end of ends) {
      if (end !== 350) expect(end).toMatch(/^(?:concurrent|token_bucket)_exceeded: again in /);
    }
  });
});

test("its rules are sound", () => {
  const said = execFileSync(process.execPath, [join(ROOT, "dist/main.js"), "check", join(EXAMPLE, "rules")], {
    encoding: "utf8",
  });
  expect(said).toMatch(/^ok: 1 domain/);
});
