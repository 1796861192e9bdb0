// Files of calls in every form that is read: which calls come out, in which order, and what is said of lines that hold none.

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { csvReader } from "../../../../../src/base/csv-rows.ts";
import { ConfigError } from "../../../../../src/base/errors.ts";
import { LimitRequest } from "../../../../../src/engine/domain/request.ts";
import { decodeRequest } from "../../../../../src/grpc/rls/codec.ts";
import type { RecordedCall } from "../../../../../src/tools/mirror/read-recording.ts";
import { recordedLine } from "../../../../../src/tools/mirror/recording.ts";
import { messageOf } from "../../../../../src/tools/simulate/question.ts";
import { reportOf } from "../../../../../src/tools/simulate/report.ts";
import { Simulation } from "../../../../../src/tools/simulate/simulation.ts";
import { merged, sorted } from "../../../../../src/tools/simulate/sources/in-order.ts";
import { type Mapping, parseTemplate, type Template } from "../../../../../src/tools/simulate/sources/mapping.ts";
import { LineCounts, openCalls } from "../../../../../src/tools/simulate/sources/open-calls.ts";
import { timeOfCall } from "../../../../../src/tools/simulate/sources/time-of-call.ts";
import { PLAIN_SETTINGS } from "../../../../support/recorded-service.ts";
import { plainOf } from "../../../../support/request-arbitrary.ts";
import { rulesFromYaml } from "../../../../support/rules.ts";
import { runs } from "../../../../support/runs.ts";
import { temporaryFolder } from "../../../../support/temporary-folder.ts";

const folder = temporaryFolder("headgate-calls");
const T0 = Date.UTC(2026, 0, 1) * 1_000;
let files = 0;

function written(content: string | Buffer, ending = ".jsonl"): string {
  const file = join(folder, `${files++}${ending}`);
  writeFileSync(file, content);
  return file;
}

function template(text: string): Template {
  const read = parseTemplate(text);
  if ("problem" in read) throw new Error(read.problem);
  return read;
}

const MAPPING: Mapping = {
  domain: template("edge"),
  time: "start_time",
  hits: "hits",
  descriptors: [
    [{ key: "remote_address", value: template("{peer|host}") }],
    [
      { key: "tenant", value: template("{tenant}") },
      { key: "route", value: template("v1:{req.path|path}") },
    ],
  ],
};

async function read(paths: readonly string[], lateMaxUs = 0, mapping: Mapping | undefined = MAPPING) {
  const counts = new LineCounts();
  const calls: RecordedCall[] = [];
  for await (const batch of openCalls({ files: paths, mapping, lateMaxUs }, counts)) calls.push(...batch);
  return { counts, calls, shown: calls.map(shown) };
}

function shown({ atUs, message }: RecordedCall) {
  const request = new LimitRequest();
  decodeRequest(message, request);
  const { domain, hitsAddend, descriptors } = plainOf(request);
  const asked = descriptors.map(({ entries }) => entries.map((entry) => entry.join("=")).join(","));
  return `${(atUs - T0) / 1_000} ${domain} ${hitsAddend} ${asked.join(" ")}`;
}

const JSON_LINES = [
  '{"start_time":"2026-01-01T00:00:01.500Z","peer":"10.0.0.1:5000","tenant":"acme","req":{"path":"/a?b=c"},"hits":3}',
  '{"start_time":"2026-01-01T00:00:02Z","peer":"[::1]:80","tenant":"-","req":{"path":"/"}}',
  '{"start_time":1767225603.25,"peer":"10.0.0.2","tenant":"sch\u00f6n","req":{"path":"/x"},"hits":0}',
];
const JSON_CALLS = [
  "1500 edge 3 remote_address=10.0.0.1 tenant=acme,route=v1:/a",
  "2000 edge 1 remote_address=::1",
  "3250 edge 1 remote_address=10.0.0.2 tenant=sch\u00f6n,route=v1:/x",
];

describe("access logs", () => {
  test.each([
    ["as JSON lines", `${JSON_LINES.join("\n")}\n`, ".jsonl"],
    ["with CRLF, a byte order mark and no last line end", `\ufeff${JSON_LINES.join("\r\n")}`, ".jsonl"],
    ["under gzip", gzipSync(JSON_LINES.join("\n")), ".log.gz"],
    [
      "as CSV",
      'start_time;peer;"tenant";req.path;hits\n2026-01-01T00:00:01.5Z;10.0.0.1:5000;acme;"/a?b=c";3\n' +
        '2026-01-01T01:00:02+01:00;[::1]:80;;/;\n1767225603250;10.0.0.2;"sch\u00f6n";/x;0',
      ".csv",
    ],
  ])("%s", async (_, content, ending) => {
    const { shown: found, counts } = await read([written(content, ending)]);
    expect(found).toEqual(JSON_CALLS);
    expect(counts.skipped).toBe(0);
  });

  test("lines without a call are counted, and the first is named", async () => {
    const file = written(`${JSON_LINES[0]}\nnothing\n\n{"peer":"1"}\n{"start_time":"noon","peer":"1"}\n`);
    const { counts, calls } = await read([file]);
    expect(calls).toHaveLength(1);
    expect(counts).toMatchObject({ lines: 4, skipped: 3 });
    expect(counts.firstSkipped).toBe(`${file}, line 2: expected a JSON object, or a CSV row with its quotes closed`);
  });

  test.each([
    ["nothing at all", "", /it is empty/],
    ["no call", '{"start_time":"2026-01-01T00:00:00Z"}\n', /line 1: expected the fields of at least one descriptor/],
    [
      "no field of a descriptor",
      '{"start_time":"2026-01-01T00:00:00Z","path":"/","size":1}\n',
      /line 1: expected the fields of at least one descriptor; no line has 'hits' and 'peer' and .*$/,
    ],
    ["no times", '{"at":1}\n{"at":2}\n', /line 1: expected a time in 'start_time', found nothing/],
  ])("with %s are refused", async (_, content, message) => {
    await expect(read([written(content)])).rejects.toThrow(message);
  });

  test("that come through a pipe, which can be read only once, are refused", async () => {
    const pipe = `${written("")}.pipe`;
    execFileSync("mkfifo", [pipe]);
    await expect(read([pipe])).rejects.toThrow(/got a pipe: calls are read more than once\. Write them to a file/);
  });

  test("without a mapping are refused", async () => {
    const counts = new LineCounts();
    const calls = openCalls({ files: [written(JSON_LINES.join("\n"))], mapping: undefined, lateMaxUs: 0 }, counts);
    await expect(calls.next()).rejects.toThrow(
      /expected a time in 'at', found nothing; logs other than a decision log need .*--descriptor/,
    );
  });

  test.each([["{"], ["{path"], ["a}b"], ["{}"], ["{a|port}"]])("a template %s is refused", (text) => {
    expect(parseTemplate(text)).toHaveProperty("problem");
  });
});

describe("written calls", () => {
  test.each([
    ["a number as a value", [{ key: "a", value: 1 }], {}, /expected text as 'value', got number/],
    ["half a hit", [{ key: "a" }], { hits_addend: 2.5 }, /a whole number of at least 0 as 'hits_/],
  ])("with %s are invalid", async (_, entries, more, why) => {
    const at = "2026-01-01T00:00:00Z";
    for (const call of [
      { at, domain: "edge", descriptors: [{ entries, ...more }] },
      ...("hits_addend" in more ? [{ at, domain: "edge", descriptors: [{ entries }], ...more }] : []),
    ]) {
      await expect(read([written(`${JSON.stringify(call)}\n`)])).rejects.toThrow(why);
    }
  });

  test("hold what the body of /json holds, and whatever else", async () => {
    const line = {
      at: "2026-01-01T00:00:00.000250Z",
      domain: "edge",
      descriptors: [
        { entries: [{ key: "a", value: "b" }], limit: { requestsPerUnit: 7, unit: "MINUTE" }, hits_addend: 4 },
        { entries: [{ key: "raw", value_base64: "/w==" }], is_negative_hits: true },
      ],
      hitsAddend: "2",
      code: "OVER_LIMIT",
    };
    const { calls } = await read([written(`${JSON.stringify(line)}\n`)], 0, undefined);
    expect(calls).toEqual([
      {
        atUs: T0 + 250,
        message: messageOf({
          domain: "edge",
          hitsAddend: 2,
          descriptors: [
            { entries: [["a", "b"]], override: { amount: 7, unit: 2 }, hits: 4, isRefund: false },
            { entries: [["raw", Buffer.from([255])]], override: undefined, hits: undefined, isRefund: true },
          ],
        }),
      },
    ]);
  });
});

describe("recordings", () => {
  const message = Buffer.from([10, 1, 101, 18, 6, 10, 4, 10, 2, 107, 107]).toString("base64");
  const recording = (startedAt: string, atUs: readonly number[]) =>
    `{"headgate_recording":2,"started_at":"${startedAt}"}\n${atUs.map((us) => recordedLine(us, message)).join("")}`;

  test("of several processes are put in order by their times", async () => {
    const one = written(recording("2026-01-01T00:00:00.000Z", [1_000, 900_000, 2_000_000]));
    const other = written(gzipSync(recording("2026-01-01T00:00:01.000Z", [0, 500_000])), ".gz");
    const { calls } = await read([one, other]);
    expect(calls.map(({ atUs }) => (atUs - T0) / 1_000)).toEqual([1, 900, 1_000, 1_500, 2_000]);
  });

  test("that were cut lack their last line, and damaged ones are refused by line", async () => {
    const text = recording("2026-01-01T00:00:00.000Z", [1, 2, 3]);
    const file = written(text.slice(0, -5));
    const { calls, counts } = await read([file]);
    expect([calls.length, counts.cutOff]).toEqual([2, new Map([[file, 3]])]);
    expect((await read([written(text)])).counts.cutOff.size).toBe(0);
    await expect(read([written(text.replace('"at_us":2', '"at_us":9'))])).rejects.toThrow(/line 3 is damaged/);
  });
});

test("gzip files that were cut anywhere lose nothing before, and no half line becomes a call", async () => {
  const members = [0, 1, 2].map((member) => {
    const lines = [0, 1].map((i) => `${JSON_LINES[0]?.replace("01.5", `0${member * 2 + i}.5`)}`);
    return gzipSync(`${lines.join("\n")}\n`);
  });
  const whole = Buffer.concat(members);
  const first = (members[0] as Buffer).length;
  const ends = members.map((_, at) => Buffer.concat(members.slice(0, at + 1)).length);
  for (let length = first; length <= whole.length; length++) {
    const file = written(whole.subarray(0, length), ".jsonl.gz");
    const { calls, counts } = await read([file]);
    expect([counts.lines, counts.skipped], `${length} bytes`).toEqual([calls.length, 0]);
    expect([...counts.cutOff], `${length} bytes`).toEqual(ends.includes(length) ? [] : [[file, calls.length]]);
    expect(calls.length).toBeGreaterThanOrEqual(2);
  }
});

describe("order", () => {
  const call = (atUs: number): RecordedCall => ({ atUs, message: Buffer.alloc(0) });
  async function* inBatches(calls: readonly RecordedCall[], size: number) {
    for (let i = 0; i < calls.length; i += size) yield calls.slice(i, i + size);
  }
  const collected = async (batches: AsyncIterable<readonly RecordedCall[]>) => {
    const calls: number[] = [];
    for await (const batch of batches) calls.push(...batch.map(({ atUs }) => atUs));
    return calls;
  };

  // Promise(simulations): Calls of several files, and late lines, are decided in the order of their times.
  test("a line waits until one comes that is later than is waited for, and one that is too late passes at once", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(1_000)),
        fc.nat(300),
        fc.integer({ min: 1, max: 7 }),
        async (late, window, size) => {
          const calls = late.map((by, i) => call(i * 20 + 1_000 - by));
          const newest = calls.map((_, i) => Math.max(...calls.slice(0, i + 1).map(({ atUs }) => atUs)));
          const passes = calls.map(({ atUs }, i) => {
            const behind = newest.findIndex((newestUs, j) => j >= i && newestUs - window > atUs);
            return { atUs, i, behind: behind < 0 ? calls.length : behind };
          });
          const inOrder = passes.toSorted((a, b) => a.behind - b.behind || a.atUs - b.atUs || a.i - b.i);
          expect(await collected(sorted(inBatches(calls, size), window))).toEqual(inOrder.map(({ atUs }) => atUs));
        },
      ),
      { numRuns: runs(200) },
    );
  });

  test("files merge to one order", async () => {
    const sortedTimes = fc.array(fc.nat(500)).map((times) => times.toSorted((a, b) => a - b).map(call));
    await fc.assert(
      fc.asyncProperty(fc.array(sortedTimes, { maxLength: 4 }), fc.integer({ min: 1, max: 5 }), async (lists, size) => {
        const out = await collected(merged(lists.map((list) => inBatches(list, size))));
        expect(out).toEqual(
          lists
            .flat()
            .map(({ atUs }) => atUs)
            .toSorted((a, b) => a - b),
        );
      }),
      { numRuns: runs(200) },
    );
  });
});

test.each([
  ["2026-01-01T00:00:00.123456789Z", T0 + 123_456],
  ["2026-01-01T02:00:00+02:00", T0],
  ["2026-01-01T00:00Z", T0],
  [T0 / 1e6, T0],
  [T0, T0],
  ["1767225600.000001", T0 + 1],
  ["2026-01-01 00:00:00.5", T0 + 500_000],
  ["2026-01-01 02:00:00 +0200", T0],
  ["2026-01-01 00:00:00 UTC", T0],
  ["01/Jan/2026:02:00:00 +0200", T0],
  ["[01/Jan/2026:00:00:00 +0000]", T0],
  ["01/Foo/2026:00:00:00 +0000", undefined],
  ["2026-13-01T00:00:00Z", undefined],
  ["2026-01-01", undefined],
  ["yesterday", undefined],
  [-1, undefined],
  ["9999-12-31T00:00:00Z", undefined],
  ["1969-12-31T23:59:59Z", undefined],
  [9e9, undefined],
])("times %s", (value, expected) => {
  expect(timeOfCall(value)).toBe(expected);
});

test("a CSV row whatever is in its fields, on one line", () => {
  const field = fc.string({ unit: fc.constantFrom("a", '"', ",", ";", " ") });
  const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;
  fc.assert(
    fc.property(fc.array(field, { minLength: 2, maxLength: 4 }), (fields) => {
      const read = csvReader(fields.map((_, i) => `c${i}`).join(","));
      const row = fields.map(quoted).join(",");
      expect(Object.values(read(row) ?? {})).toEqual(fields);
      expect(read(`${row},"`)).toBeUndefined();
    }),
    { numRuns: runs(300) },
  );
});

describe("whatever is in a file", () => {
  const rules =
    "domain: edge\ndescriptors: [{ key: remote_address, rate_limit: { requests_per_unit: 1, unit: year } }]\n";
  const text = fc.oneof(
    fc.string({ unit: "binary", maxLength: 30 }),
    fc.constantFrom(
      ...JSON_LINES,
      '{"headgate_recording":2,"started_at":"2026-01-01T00:00:00Z"}',
      recordedLine(1e300, ""),
    ),
    fc.constantFrom(
      '{"headgate_recording":2,"started_at":"-002026-01-01T00:00:00Z"}',
      recordedLine(5, "CgA="),
      "a,b",
      '"',
      "{",
      "null",
    ),
    fc
      .record(
        {
          at: fc.constantFrom(1, "2026-01-01T00:00:00Z", 1e308, -1, null, {}),
          domain: fc.constantFrom("edge", "", 1, "x".repeat(2_000)),
          descriptors: fc.array(
            fc.record({
              entries: fc.constantFrom(
                [],
                [{ key: "remote_address" }],
                [{ key: 1 }],
                "x",
                Array(65).fill({ key: "k" }),
                [{ key: "k", value: "v".repeat(70_000) }],
              ),
              hits_addend: fc.constantFrom(0, 1e15, "5", "x", -1),
              limit: fc.constantFrom(null, 1, { requests_per_unit: 1e15, unit: "DAY" }, { unit: 99 }, { unit: 0.5 }),
            }),
            { maxLength: 2 },
          ),
          hits_addend: fc.constantFrom(0, 1e15, "5", null),
        },
        { requiredKeys: [] },
      )
      .map((value) => JSON.stringify(value)),
  );

  // Promise(simulations): Whatever is in a file of calls is read, skipped or rejected in words.
  test("it is read, skipped or rejected in words, and what comes out can be decided", async () => {
    const lines = fc.array(text, { maxLength: 6 });
    const end = fc.constantFrom("\n", "\r\n");
    await fc.assert(
      fc.asyncProperty(
        lines,
        end,
        fc.constantFrom(undefined, MAPPING),
        fc.boolean(),
        async (all, eol, mapping, zips) => {
          const content = Buffer.from(all.join(eol));
          const file = join(folder, zips ? "any.gz" : "any");
          writeFileSync(file, zips ? gzipSync(content) : content);
          const simulation = new Simulation({ ruleSet: rulesFromYaml(rules), settings: PLAIN_SETTINGS, explainMax: 2 });
          try {
            const batches = openCalls({ files: [file], mapping, lateMaxUs: 1_000 }, new LineCounts());
            for await (const batch of batches) for (const call of batch) simulation.feed(call);
          } catch (error) {
            expect(error).toBeInstanceOf(ConfigError);
          }
          const { calls } = reportOf(simulation);
          const rejected = Object.values(calls.rejected).reduce((sum, count) => sum + count, 0);
          expect(calls.allowed + calls.refused + rejected).toBe(calls.read);
        },
      ),
      { numRuns: runs(150) },
    );
  });

  test("a quote that its line does not close costs that line alone, and damaged gzip is an error", async () => {
    const rows = 'start_time,peer\n2026-01-01T00:00:00Z,1\n"open\n2026-01-01T00:00:01Z,2\n';
    const { calls, counts } = await read([written(rows, ".csv")]);
    expect([calls.length, counts.skipped]).toEqual([2, 1]);
    await expect(read([written("no gzip", ".gz")])).rejects.toThrow(/it is damaged or not gzip/);
  });
});
