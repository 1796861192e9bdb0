// Recording and replaying: through real Headgates, against recorded answers of envoyproxy/ratelimit, by the command line.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { status } from "@grpc/grpc-js";
import { beforeAll, describe, expect, test } from "vitest";
import { SystemClock } from "../../src/base/clock.ts";
import { readRecording } from "../../src/tools/mirror/read-recording.ts";
import { Recording } from "../../src/tools/mirror/recording.ts";
import { openRawClient, startTestServer } from "../support/grpc-test-server.ts";
import { shouldRateLimit } from "../support/load-proto.ts";
import { answerBytes, callBytes, NOBODY, requestBytes, startMirror } from "../support/mirror-rig.ts";
import { runProgram } from "../support/run-program.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { type AskedRequest, startTestApp, type TestApp } from "../support/test-app.ts";
import { LateWatch } from "../support/turn-watch.ts";

interface RecordedCase {
  readonly name: string;
  readonly rules: readonly string[];
  readonly calls: readonly { readonly request: AskedRequest; readonly answer: object }[];
}

const { cases } = JSON.parse(
  readFileSync(new URL("../fixtures/mirror/recorded-answers.json", import.meta.url), "utf8"),
) as { cases: readonly RecordedCase[] };

const directory = temporaryFolder("headgate-replay");

let files = 0;
async function recordingOf(messages: readonly Buffer[]): Promise<string> {
  const file = join(directory, `calls-${files++}.jsonl`);
  const recording = await Recording.open({ file, bytesMax: 1_000_000, clock: new SystemClock() });
  for (const message of messages) recording.record(message);
  await recording.close();
  return file;
}

/** A target that gives recorded answers in their order. */
async function startRecordedTarget(answers: readonly object[]): Promise<string> {
  let next = 0;
  const target = await startTestServer({
    handle: (_message, _deadlineUs, reply) => reply.ok(answerBytes(answers[next++] ?? {})),
  });
  return target.target;
}

describe.each(cases)("replaying $name against recorded answers of envoyproxy/ratelimit", ({ rules, calls }) => {
  const messages = calls.map(({ request }) => shouldRateLimit().requestSerialize(request));
  const answers = calls.map(({ answer }) => answer);

  test("finds them equal", async () => {
    const app = await startTestApp(rules.join("\n"), { RESPONSE_DYNAMIC_METADATA: "false" });
    const file = await recordingOf(messages);
    const targets = `--target 127.0.0.1:${app.grpcPort} --compare-with ${await startRecordedTarget(answers)}`;
    const { out, exitCode } = await runProgram(`mirror replay ${file} ${targets} --speed max --ignore duration`);
    expect(out).toContain(`${calls.length} compared: ${calls.length} equal, 0 different`);
    expect(exitCode).toBe(0);
  });
});

test("names the rule that answers otherwise than recorded, and ends with 1", async () => {
  const [first] = cases as [RecordedCase];
  const rules = first.rules.join("\n").replace("requests_per_unit: 3}", "requests_per_unit: 4}");
  const app = await startTestApp(rules, { RESPONSE_DYNAMIC_METADATA: "false" });
  const file = await recordingOf(first.calls.map(({ request }) => shouldRateLimit().requestSerialize(request)));
  const compareWith = await startRecordedTarget(first.calls.map(({ answer }) => answer));
  const args = ["mirror", "replay", file, "--target", `127.0.0.1:${app.grpcPort}`, "--compare-with", compareWith];
  const { out, exitCode } = await runProgram([...args, "--speed", "max", "--ignore", "duration", "--json"]);
  expect(exitCode).toBe(1);
  expect(out, "keys in snake_case").not.toMatch(/^ *"\w*[A-Z]\w*":/m);
  const report = JSON.parse(out) as { calls: object; rules: readonly object[] };
  expect(report.calls).toMatchObject({ relayed: 6, same: 2, different: 4 });
  expect(report.rules).toEqual([
    expect.objectContaining({
      domain: "shop",
      keys: "tier",
      answering_limit: "4/HOUR",
      compared_limit: "3/HOUR",
      over_only_compared: 1,
    }),
  ]);
});

describe("recording through a mirror", () => {
  let app: TestApp;
  beforeAll(async () => {
    app = await startTestApp(
      "domain: edge\ndescriptors:\n  - { key: user, rate_limit: { requests_per_unit: 5, unit: year } }\n",
    );
  });

  test.each(["calls.jsonl", "calls.jsonl.gz"])("keeps every call in %s, and replays them", async (name) => {
    const file = join(directory, `mirror-${name}`);
    const mirror = await startMirror(`127.0.0.1:${app.grpcPort}`, undefined, { record: file });
    const client = openRawClient(mirror.grpcPort);
    const sent = Array.from({ length: 20 }, (_, i) => requestBytes({ user: `${name}-${i}` }));
    for (const message of sent) expect((await callBytes(client, message)).code).toBe(status.OK);
    const report = await mirror.stop();
    expect(report.recording).toMatchObject({ calls: 20, left_out: 0, failure: null });
    const kept: Buffer[] = [];
    for await (const calls of readRecording(file)) kept.push(...calls.map(({ message }) => message));
    expect(kept).toEqual(sent);
    const { out, exitCode } = await runProgram(["mirror", "replay", file, "--target", `127.0.0.1:${app.grpcPort}`]);
    expect(out).toContain("20 calls in");
    expect(exitCode).toBe(0);
    const cut = join(directory, `cut-${name}`);
    await writeFile(cut, (await readFile(file)).subarray(0, -30));
    const short = await runProgram(["mirror", "replay", cut, "--target", `127.0.0.1:${app.grpcPort}`]);
    expect(short.err).toMatch(
      /^.*cut-calls\.jsonl(?:\.gz)? is cut off after line \d+; only what comes before was read\n$/,
    );
  });

  test("never writes over a file", async () => {
    const file = await recordingOf([]);
    const start = startMirror(`127.0.0.1:${app.grpcPort}`, undefined, { record: file });
    await expect(start).rejects.toThrow(/exists already/);
  });
});

// Promise(mirror): A full disk is reported and counted, and costs no call.
test("a disk that is full ends a recording, which is said and counted", () => {
  const file = join(directory, "full.jsonl");
  // A process that may write no file longer than 64 KiB gets the error of a full disk, and no signal.
  const script = `
    import { Recording } from ${JSON.stringify(resolve("dist/tools/mirror/recording.js"))};
    const said = [];
    const clock = { nowUs: () => 0 };
    const recording = await Recording.open({ file: ${JSON.stringify(file)}, bytesMax: 1e9, clock, onEnded: (why) => said.push(why) });
    for (let i = 0; i < 100; i++) recording.record(Buffer.alloc(300_000));
    await recording.close();
    const { calls, leftOut, failure } = recording;
    console.log(JSON.stringify({ calls, leftOut, failure, said }));`;
  const limited = 'trap "" XFSZ; ulimit -f 64; exec "$0" --input-type=module -e "$1"';
  const { stdout } = spawnSync("bash", ["-c", limited, process.execPath, script], { encoding: "utf8" });
  const { calls, leftOut, failure, said } = JSON.parse(stdout) as Record<string, unknown>;
  expect([calls, leftOut]).toEqual([0, 100]);
  expect(failure).toMatch(/EFBIG/);
  expect(said).toEqual([expect.stringMatching(/full\.jsonl failed: EFBIG/)]);
});

describe("the speed of a replay", () => {
  const seconds = (out: string) => (JSON.parse(out) as { readonly seconds: number }).seconds;
  let target: string;
  let file: string;
  beforeAll(async () => {
    const app = await startTestApp("domain: edge\ndescriptors: []\n");
    target = `127.0.0.1:${app.grpcPort}`;
    let nowUs = 0;
    file = join(directory, "paced.jsonl");
    const recording = await Recording.open({ file, bytesMax: 1_000_000, clock: { nowUs: () => nowUs } });
    for (let i = 0; i <= 10; i++) {
      nowUs = i * 60_000;
      recording.record(requestBytes({ user: "a" }));
    }
    await recording.close();
  });

  test.each([
    { speed: "1x", least: 0.6, most: 3 },
    { speed: "2x", least: 0.3, most: 0.58 },
    { speed: "max", least: 0, most: 0.25 },
  ])("$speed", async ({ speed, least, most }) => {
    const late = new LateWatch();
    const { out, exitCode } = await runProgram(`mirror replay ${file} --target ${target} --json --speed ${speed}`);
    const lateSeconds = late.stop() / 1_000;
    expect(exitCode).toBe(0);
    expect(seconds(out)).toBeGreaterThanOrEqual(least);
    expect(seconds(out)).toBeLessThan(most + lateSeconds);
  });

  test("calls that could not be compared count against what is tolerated", async () => {
    const args = ["mirror", "replay", file, "--target", target, "--compare-with", NOBODY, "--speed", "max"];
    expect((await runProgram(args)).exitCode).toBe(1);
    expect((await runProgram([...args, "--tolerate", "100%"])).exitCode).toBe(0);
  });

  test("a target that hangs ends a replay no later than its timeout for each call", async () => {
    const hanging = await startTestServer({ handle: () => undefined });
    const args = ["mirror", "replay", file, "--target", hanging.target, "--json", "--speed", "max"];
    const { out, exitCode } = await runProgram([...args, "--in-flight", "20", "--timeout", "200ms"]);
    expect(exitCode).toBe(1);
    expect(seconds(out)).toBeLessThan(2);
  });
});
