// Reads files of calls: recordings of the mirror, decision logs, and logs in JSON or CSV that a mapping describes. The
// first line tells which kind a file is.

import { stat } from "node:fs/promises";
import { csvReader } from "../../../base/csv-rows.ts";
import { ConfigError } from "../../../base/errors.ts";
import { readRecord } from "../../../base/is-record.ts";
import { readLines } from "../../../base/read-lines.ts";
import { type RecordedCall, readRecording } from "../../mirror/read-recording.ts";
import { merged, sorted } from "./in-order.ts";
import { callOf, fieldOf, fieldsOf, type LogLine, type Mapping, NoCall } from "./mapping.ts";
import { looksWritten, readWrittenCall } from "./written-call.ts";

export interface CallFilesOptions {
  readonly files: readonly string[];
  /** How to read logs; undefined if no file is a log. */
  readonly mapping: Mapping | undefined;
  /** How late a line of a log may come; recordings are in order. */
  readonly lateMaxUs: number;
}

/** What is said of the lines of logs. */
export class LineCounts {
  lines = 0;
  /** Lines that hold no call. */
  skipped = 0;
  /** `file, line n: why` of the first of them. */
  firstSkipped: string | undefined;
  /** Files that are cut off, each with the number of its whole lines. */
  readonly cutOff = new Map<string, number>();
  /**
   * The mapping's fields that no line has; undefined if no file is read by a mapping. A field without a value, such as
   * `-`, is there.
   */
  unseen: Set<string> | undefined;

  /** Such as "no line has 'pth' and 'host'"; undefined if all fields were seen. */
  get unseenText(): string | undefined {
    if (this.unseen === undefined || this.unseen.size === 0) return undefined;
    return `no line has ${[...this.unseen].map((name) => `'${name}'`).join(" and ")}`;
  }
}

type Batches = AsyncGenerator<readonly RecordedCall[]>;

/**
 * Yields the calls of all files in the order of their times, some at a time. Throws ConfigError for a file that can't
 * be read, a damaged recording, and a log without any call. A line of a log without a call is counted and skipped.
 */
export async function* openCalls(options: CallFilesOptions, counts: LineCounts): Batches {
  yield* merged(options.files.map((file) => callsOf(file, options, counts)));
}

async function* callsOf(file: string, options: CallFilesOptions, counts: LineCounts): Batches {
  const head = await firstLineOf(file);
  const onCutOff = (lines: number) => counts.cutOff.set(file, lines);
  if (Object.hasOwn(readRecord(head) ?? {}, "headgate_recording")) {
    yield* readRecording(file, { onCutOff });
    return;
  }
  const lines = readLines(file, { fail, keepsLastPart: true, onCutOff });
  const readLine = lineReader(file, head, options.mapping, counts);
  yield* sorted(logCalls(file, lines, readLine, counts), options.lateMaxUs);
}

async function firstLineOf(file: string): Promise<string> {
  // A file that can't be read is reported where it is read.
  const info = await stat(file).catch(() => undefined);
  if (info?.isFIFO() || info?.isSocket()) {
    return fail(
      file,
      "expected a file, got a pipe: calls are read more than once. Write them to a file first, or name - and pipe them to standard input",
    );
  }
  for await (const [line = ""] of readLines(file, { fail, keepsLastPart: true })) return line;
  return fail(file, "it is empty");
}

const UNMAPPED_HINT = "; logs other than a decision log need --domain, --time and --descriptor";

/** Reads the call of a line; undefined if the line holds nothing. Throws NoCall. */
type ReadLine = (line: string) => RecordedCall | undefined;

function lineReader(file: string, head: string, mapping: Mapping | undefined, counts: LineCounts): ReadLine {
  const first = readRecord(head);
  // A service's log has lines that are no decisions, too.
  if (first !== undefined && (mapping === undefined || looksWritten(first))) return reader(readRecord, readWrittenCall);
  if (mapping === undefined) {
    fail(file, "it is neither a recording nor a decision log; other logs need --domain, --time and --descriptor");
  }
  counts.unseen ??= fieldsOf(mapping);
  const { unseen } = counts;
  const read = (line: LogLine) => {
    for (const name of unseen) if (fieldOf(line, name) !== undefined) unseen.delete(name);
    return callOf(line, mapping);
  };
  if (first !== undefined) return reader(readRecord, read);
  const readRow = reader(csvReader(head), read);
  return (line) => (line === head ? undefined : readRow(line));
}

function reader(parse: (line: string) => LogLine | undefined, read: (line: LogLine) => RecordedCall): ReadLine {
  return (line) => {
    if (line.trim() === "") return undefined;
    const found = parse(line);
    if (found === undefined) throw new NoCall("expected a JSON object, or a CSV row with its quotes closed");
    return read(found);
  };
}

async function* logCalls(
  file: string,
  batches: AsyncIterable<readonly string[]>,
  readLine: ReadLine,
  counts: LineCounts,
): Batches {
  let number = 0;
  let found = 0;
  let firstSkipped: string | undefined;
  for await (const batch of batches) {
    const calls: RecordedCall[] = [];
    for (const line of batch) {
      number++;
      try {
        const call = readLine(line);
        if (call === undefined) continue;
        calls.push(call);
      } catch (error) {
        if (!(error instanceof NoCall)) throw error;
        counts.skipped++;
        firstSkipped ??= `line ${number}: ${error.message}`;
        counts.firstSkipped ??= `${file}, ${firstSkipped}`;
      }
      counts.lines++;
    }
    found += calls.length;
    yield calls;
  }
  if (found > 0) return;
  const { unseen, unseenText: text } = counts;
  const hint = unseen === undefined ? UNMAPPED_HINT : text === undefined ? "" : `; ${text}`;
  fail(file, `${firstSkipped ?? "it has no calls"}${hint}`);
}

function fail(file: string, why: string): never {
  throw new ConfigError("CONFIG_SETTINGS", `can't read the calls in ${file}: ${why}`);
}
