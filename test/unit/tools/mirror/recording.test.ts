// Files of recorded calls: written, bounded, damaged.

import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterEach, describe, expect, test, vi } from "vitest";
import { type RecordedCall, readRecording } from "../../../../src/tools/mirror/read-recording.ts";
import { Recording, recordedLine } from "../../../../src/tools/mirror/recording.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const directory = temporaryFolder("headgate-recording");
afterEach(() => {
  vi.useRealTimers();
});

async function readAll(file: string): Promise<RecordedCall[]> {
  const calls: RecordedCall[] = [];
  for await (const read of readRecording(file)) calls.push(...read);
  return calls;
}

async function record(file: string, count: number, bytesMax = 1_000_000, said: string[] = []): Promise<Recording> {
  const clock = new ManualClock();
  const recording = await Recording.open({ file, bytesMax, clock, onEnded: (why) => said.push(why) });
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

const T0 = Date.UTC(2026, 0, 1) * 1_000;
const HEAD = '{"headgate_recording":2,"started_at":"2026-01-01T00:00:00.000Z"}\n';
const LINE = recordedLine(10_000, "AP8A");

describe("a recording", () => {
  test.each(["calls.jsonl", "calls.jsonl.gz"])(
    "%s holds messages and when they came, for its owner alone",
    async (name) => {
      const file = join(directory, name);
      await record(file, 3);
      expect(await readAll(file)).toEqual([
        { atUs: T0 + 10_000, message: Buffer.from([0, 255, 0]) },
        { atUs: T0 + 20_000, message: Buffer.from([1, 255, 0]) },
        { atUs: T0 + 30_000, message: Buffer.from([2, 255, 0]) },
      ]);
      expect(statSync(file).mode & 0o777).toBe(0o600);
    },
  );

  test("is lines of JSON, under gzip too, as the docs say", async () => {
    const file = join(directory, "lines.gz");
    await record(file, 1);
    expect(gunzipSync(readFileSync(file)).toString()).toBe(
      `${HEAD}{"at_us":10000,"message":"AP8A","crc32":4224664369}\n`,
    );
  });

  test("stops at its bound, says so once, counts what it leaves out, and stays readable", async () => {
    const file = join(directory, "bounded.jsonl");
    const bytesMax = HEAD.length + LINE.length * 2;
    const said: string[] = [];
    const recording = await record(file, 100, bytesMax, said);
    expect(said).toEqual([`the recording ${file} has reached its bound of ${bytesMax} bytes`]);
    expect([recording.calls, recording.leftOut]).toEqual([2, 98]);
    expect(statSync(file).size).toBe(recording.bytes);
    expect(await readAll(file)).toHaveLength(2);
  });

  // Promise(mirror): A killed mirror loses less than a second of its recording.
  test.each(["killed.jsonl", "killed.jsonl.gz"])("%s of a killed process lacks half a second at most", async (name) => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    const file = join(directory, name);
    const recording = await Recording.open({ file, bytesMax: 1_000_000, clock: new ManualClock() });
    await expect.poll(() => statSync(file).size).toBeGreaterThan(0);
    for (let i = 0; i < 10; i++) recording.record(Buffer.from([i]));
    vi.advanceTimersByTime(500);
    await expect.poll(() => recording.calls).toBe(10);
    recording.record(Buffer.from([10]));
    // The process would end here.
    expect((await readAll(file)).map(({ message }) => message[0])).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    await recording.close();
    expect(await readAll(file)).toHaveLength(11);
  });

  test.each([
    { name: "empty file", text: "", why: /it is empty/ },
    { name: "file of something else", text: "domain: edge\n", why: /first line/ },
    { name: "later format", text: '{"headgate_recording":3}\n', why: /format 3; this version reads 2/ },
    { name: "recording without a date", text: '{"headgate_recording":2}\n', why: /no time since 1970 as started_at/ },
    { name: "damaged last line", text: `${HEAD}${LINE}nonsense\n`, why: /line 3 is damaged/ },
    { name: "call without a checksum", text: `${HEAD}{"at_us":1,"message":""}\n`, why: /line 2 is damaged/ },
    { name: "line that is too long", text: `${HEAD}${" ".repeat(6_100_000)}`, why: /line 2 is longer than/ },
  ])("refuses a $name and says where", async ({ name, text, why }) => {
    await expect(readAll(written(`${name}.jsonl`, text))).rejects.toThrow(why);
  });

  // Promise(mirror): A damaged recording never replays as other calls.
  test("with any one byte damaged names a line, or is read as if it ended there: no other call comes out", async () => {
    const text = HEAD + [1, 2, 3].map((i) => recordedLine(i * 10, Buffer.from([i, 7, 7]).toString("base64"))).join("");
    // The first line has no checksum: a date that is damaged moves all calls.
    const inPace = (calls: readonly RecordedCall[]) =>
      calls.map(({ atUs, message }) => ({ afterUs: atUs - (calls[0]?.atUs ?? 0), message }));
    const whole = inPace(await readAll(written("whole.jsonl", text)));
    for (let at = 0; at < text.length; at++) {
      for (const bit of [1]) {
        const damaged = text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ bit) + text.slice(at + 1);
        const file = written("damaged.jsonl", damaged);
        const line = text.slice(0, at).split("\n").length;
        const outcome = await readAll(file).catch((error: Error) => error.message);
        if (typeof outcome !== "string") expect(whole.slice(0, outcome.length)).toEqual(inPace(outcome));
        else expect(outcome).toMatch(line === 1 ? /first line|format|line 2/ : new RegExp(`line ${line} is damaged`));
      }
    }
  });
});
