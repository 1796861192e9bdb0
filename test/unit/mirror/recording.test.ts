// Files of recorded calls: written, bounded, cut off, damaged.

import { readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { type RecordedCall, Recording, readRecording } from "../../../src/mirror/recording.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const directory = temporaryFolder("headgate-recording");

async function readAll(file: string): Promise<RecordedCall[]> {
  const calls: RecordedCall[] = [];
  for await (const call of readRecording(file)) calls.push(call);
  return calls;
}

async function record(file: string, count: number, bytesMax = 1_000_000): Promise<Recording> {
  const clock = new ManualClock();
  const recording = await Recording.open({ file, bytesMax, clock });
  for (let i = 0; i < count; i++) {
    clock.advanceMs(10);
    recording.record(Buffer.from([i, 255, 0]));
  }
  await recording.close();
  return recording;
}

const written = (name: string, text: string) => {
  const file = join(directory, name);
  writeFileSync(file, text);
  return file;
};

const HEAD = '{"headgate_recording":1,"started_at":"2026-01-01T00:00:00.000Z"}\n';

describe("a recording", () => {
  test.each(["calls.jsonl", "calls.jsonl.gz"])(
    "%s holds messages and when they came, for its owner alone",
    async (name) => {
      const file = join(directory, name);
      await record(file, 3);
      expect(await readAll(file)).toEqual([
        { atUs: 10_000, message: Buffer.from([0, 255, 0]) },
        { atUs: 20_000, message: Buffer.from([1, 255, 0]) },
        { atUs: 30_000, message: Buffer.from([2, 255, 0]) },
      ]);
      expect(statSync(file).mode & 0o777).toBe(0o600);
    },
  );

  test("is lines of JSON, under gzip too, as the docs say", async () => {
    const file = join(directory, "lines.gz");
    await record(file, 1);
    expect(gunzipSync(readFileSync(file)).toString()).toBe(`${HEAD}{"at_us":10000,"message":"AP8A"}\n`);
  });

  test("stops at its bound, counts what it leaves out, and stays readable", async () => {
    const file = join(directory, "bounded.jsonl");
    const recording = await record(file, 100, HEAD.length + 33 * 2);
    expect([recording.calls, recording.leftOut]).toEqual([2, 98]);
    expect(statSync(file).size).toBe(recording.bytes);
    expect(await readAll(file)).toHaveLength(2);
  });

  test("that was cut off in its last line is read up to there", async () => {
    const file = join(directory, "cut.jsonl");
    await record(file, 3);
    truncateSync(file, statSync(file).size - 10);
    expect(await readAll(file)).toHaveLength(2);
  });

  test("that was cut off under gzip is read as far as it goes", async () => {
    const file = join(directory, "cut.gz");
    await record(file, 5_000);
    truncateSync(file, Math.floor(statSync(file).size / 2));
    const calls = await readAll(file);
    expect(calls.length).toBeGreaterThan(100);
    expect(calls.length).toBeLessThan(5_000);
  });

  test.each([
    { name: "empty file", text: "", why: /it is empty/ },
    { name: "file of something else", text: "domain: edge\n", why: /first line/ },
    { name: "later format", text: '{"headgate_recording":2}\n', why: /format 2; this version reads 1/ },
    { name: "damaged line before others", text: `${HEAD}nonsense\n{"at_us":1,"message":""}\n`, why: /line 2/ },
    { name: "call without a message", text: `${HEAD}{"at_us":1}\n{"at_us":1,"message":""}\n`, why: /line 2/ },
  ])("refuses a $name and says where", async ({ name, text, why }) => {
    await expect(readAll(written(`${name}.jsonl`, text))).rejects.toThrow(why);
  });

  test("refuses a file that is not there, or is no gzip, with its name", async () => {
    await expect(readAll(join(directory, "nowhere"))).rejects.toThrow(/nowhere: ENOENT/);
    await expect(readAll(written("plain.gz", HEAD))).rejects.toThrow(/plain\.gz/);
  });
});
