// What is kept of a control plane's rules: the last set as a whole, whatever was written at once and whatever became of the file.

import { spawnSync } from "node:child_process";
import { createReadStream, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { runThrough } from "../../../../src/base/long-work.ts";
import { digestOf, RATE_LIMIT_TYPE, type WireResource } from "../../../../src/rule-sources/xds/discovery.ts";
import { CacheFile, readCacheText } from "../../../../src/rule-sources/xds/rules-cache.ts";
import { runs } from "../../../support/runs.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const folder = temporaryFolder("headgate-rules-cache");
const NOW_US = Date.UTC(2026, 10, 22) * 1_000;

function setOf(version: string, ...texts: readonly string[]) {
  const resources: WireResource[] = texts.map((text) => ({ typeUrl: RATE_LIMIT_TYPE, value: Buffer.from(text) }));
  return { version, resources, digest: runThrough(digestOf(resources)) };
}

function openCache(name: string): { path: string; cache: CacheFile; warnings: object[] } {
  const path = join(folder, name);
  const warnings: object[] = [];
  return { path, cache: new CacheFile(path, { warn: (fields) => warnings.push(fields) }), warnings };
}

describe("kept rules", () => {
  test("come back as they were, whatever their version is called", async () => {
    const { cache } = openCache("versions");
    const texts = fc.array(fc.string({ unit: "binary", maxLength: 20 }), { maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: "grapheme" }), texts, fc.nat(), async (version, parts, number) => {
        // Sets that are equal are not written again, whatever their version.
        const set = setOf(version, ...parts, String(number));
        await cache.write(set, NOW_US);
        expect(await cache.read()).toEqual({ set, savedAtUs: NOW_US });
      }),
      { numRuns: runs(15) },
    );
  });

  // Promise(xds): Rules in RULES_CACHE come back unchanged, or are rejected with the reason, wherever the file was damaged.
  test("with any one byte changed, or cut anywhere, are the same rules and can be shown, or are refused in words", async () => {
    const { path, cache } = openCache("damaged");
    await cache.write(setOf("7", "first resource", "second"), NOW_US);
    const whole = readFileSync(path);
    const { digest } = setOf("7", "first resource", "second");
    let refused = 0;
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.nat(255), fc.boolean(), (at, byte, isCut) => {
        const bytes = isCut ? whole.subarray(0, at) : Buffer.from(whole);
        if (!isCut) bytes[at] = byte;
        let kept: ReturnType<typeof readCacheText>;
        try {
          kept = readCacheText(bytes.toString("utf8"));
        } catch (cause) {
          refused++;
          expect(cause).not.toBeInstanceOf(TypeError);
          expect(String(cause)).not.toContain("undefined");
          return;
        }
        expect(runThrough(digestOf(kept.set.resources))).toBe(digest);
        expect(typeof kept.set.version).toBe("string");
        expect(new Date(kept.savedAtUs / 1_000).toISOString()).toMatch(/^[-+0-9]/);
      }),
      { numRuns: runs(1_000) },
    );
    expect(refused).toBeGreaterThan(0);
  });

  test.each([
    "null",
    "[]",
    "7",
    '{"format":"headgate rules cache 1"}',
    '{"format":"headgate rules cache 1","version":7,"saved_at":"2026-11-22T00:00:00.000Z","digest":""}',
    '{"format":"headgate rules cache 1","version":"7","saved_at":"soon","digest":""}',
    "",
  ])("that begin with %s are rejected", (first) => {
    const head = first.replace('"digest":""', `"digest":"${setOf("").digest}"`);
    expect(() => readCacheText(`${head}\n`)).toThrow(/^(expected|its|Unexpected|.*JSON)/);
  });

  test("are the last ones in the end, however many come while one is written", async () => {
    const { cache } = openCache("many");
    const written = Array.from({ length: 20 }, (_, i) =>
      cache.write(setOf(String(i), `rules ${i}`), NOW_US + i * 1_000),
    );
    await Promise.all(written);
    expect((await cache.read())?.set).toEqual(setOf("19", "rules 19"));
  });

  test("are written once the file can be; what can't be written is logged and blocks nothing", async () => {
    const { path, cache, warnings } = openCache("stuck");
    // Who opens a pipe waits for its other end.
    expect(spawnSync("mkfifo", [`${path}.new`]).status).toBe(0);
    const first = cache.write(setOf("1", "one"), NOW_US);
    const second = cache.write(setOf("2", "two"), NOW_US);
    createReadStream(`${path}.new`).resume();
    await Promise.all([first, second]);
    // No pipe can be synced.
    expect(warnings).toHaveLength(1);
    expect((await cache.read())?.set.version).toBe("2");
    // The next one is written all the same where a folder stands in the way of one.
    const blocked = openCache("file/below");
    writeFileSync(join(folder, "file"), "");
    await blocked.cache.write(setOf("1", "one"), NOW_US);
    expect(blocked.warnings).toHaveLength(1);
  });
});
