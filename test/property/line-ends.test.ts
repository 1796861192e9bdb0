// Rule files, recordings and recorded cases as other editors and checkouts leave them: lines that end in CRLF, here and there
// or everywhere, and a byte order mark. All of it means what the file meant before, and mistakes are found at the same places.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatProblem } from "../../src/engine/rules/problems.ts";
import { type RecordedCall, readRecording } from "../../src/tools/mirror/read-recording.ts";
import { recordedLine } from "../../src/tools/mirror/recording.ts";
import { summarise } from "../support/rule-summary.ts";
import { compileYaml } from "../support/rules.ts";
import { part, runs } from "../support/runs.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { readCases } from "../vectors/recorded.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const FIXTURES = "test/fixtures/rules";
const MARK = "\ufeff";

/** Values of several lines, in each way that YAML has. */
const LONG_VALUES = `domain: "ed\\
  ge"
descriptors:
  - key: >-
      tenant
    value: 'acme

      and sons'
    descriptors:
      - key: |
          two
          lines
        rate_limit: { requests_per_unit: 5,
          unit: second } # a comment
      - key: plain
          text
        rate_limit: {unit: minute, requests_per_unit: 7}`;

/** Every rule file that is shipped, every fixture, and the files of all recorded cases. */
const FILES: readonly (readonly [name: string, text: string])[] = [
  ["long values", LONG_VALUES],
  ...["deploy/rules/edge.yaml", "deploy/kubernetes/base/rules/edge.yaml"].map(fromDisk),
  ...readdirSync(join(ROOT, FIXTURES))
    .filter((file) => file.endsWith(".in.yaml"))
    .map((file) => fromDisk(`${FIXTURES}/${file}`)),
  ...readCases().flatMap(({ name, files = {} }) =>
    Object.entries(files).map(([file, text]): [string, string] => [`${name}, ${file}`, text]),
  ),
];

function fromDisk(file: string): [string, string] {
  return [file, readFileSync(join(ROOT, file), "utf8")];
}

/** What a file comes to: all rules, and all that is said about it. */
function meaningOf(text: string) {
  const { ruleSet, problems } = compileYaml({ "rules.yaml": text });
  return { rules: ruleSet === undefined ? undefined : summarise(ruleSet), problems: problems.map(formatProblem) };
}

const meanings = new Map<string, object>();

/** The meaning of a file as it is, worked out once. */
function meantBy(text: string): object {
  const known = meanings.get(text) ?? meaningOf(text);
  meanings.set(text, known);
  return known;
}

/** Each line's end becomes CRLF if its turn in `choices` says so. */
function withCrlf(text: string, choices: readonly boolean[]): string {
  let line = 0;
  return text.replace(/\r?\n/g, (end) => (choices[line++ % choices.length] === true ? "\r\n" : end));
}

const textForms = fc.record({
  mark: fc.constantFrom("", MARK),
  choices: fc.oneof(fc.constant([true]), fc.array(fc.boolean(), { minLength: 1, maxLength: 12 })),
});

describe("a rule file with other line ends or a byte order mark", () => {
  // Promise(rules): CRLF and byte order marks change nothing in rule files and recordings.
  test("CRLF everywhere behind a mark compiles to the same rules, with the same problems at the same places", () => {
    expect(meaningOf(LONG_VALUES)).toMatchObject({ rules: [{ domain: "edge" }] });
    for (const [name, text] of part(FILES))
      expect(meaningOf(MARK + withCrlf(text, [true])), name).toEqual(meantBy(text));
  });

  test("CRLF here and there does, too", () => {
    fc.assert(
      fc.property(fc.constantFrom(...FILES), textForms, ([_name, text], { mark, choices }) => {
        expect(meaningOf(mark + withCrlf(text, choices))).toEqual(meantBy(text));
      }),
      { numRuns: runs(200) },
    );
  });
});

const folder = temporaryFolder("headgate-line-ends");

async function callsIn(text: string): Promise<RecordedCall[]> {
  const file = join(folder, "calls.jsonl");
  writeFileSync(file, text);
  const calls: RecordedCall[] = [];
  for await (const read of readRecording(file)) calls.push(...read);
  return calls;
}

// Promise(rules): CRLF and byte order marks change nothing in rule files and recordings.
test("a recording with other line ends or a byte order mark holds the same calls", async () => {
  const messages = fc.array(fc.uint8Array({ maxLength: 30 }), { minLength: 1, maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(messages, textForms, async (bytes, { mark, choices }) => {
      const calls = bytes.map((message, i) => ({ atUs: i * 1_000, message: Buffer.from(message) }));
      const lines = calls.map(({ atUs, message }) => recordedLine(atUs, message.toString("base64")));
      const text = `{"headgate_recording":2,"started_at":"1970-01-01T00:00:00.000Z"}\n${lines.join("")}`;
      expect(await callsIn(mark + withCrlf(text, choices))).toEqual(calls);
    }),
    { numRuns: runs(100) },
  );
});
