// Keeps the last good set of a control plane in a file (RULES_CACHE): a head line, then one line per resource. The file
// is replaced atomically, so a reader never finds half a set.

import { readFile } from "node:fs/promises";
import { isRecord } from "../../base/is-record.ts";
import { LatestRun } from "../../base/latest-run.ts";
import type { Log } from "../../base/log.ts";
import { runThrough } from "../../base/long-work.ts";
import { errorCode, errorMessage } from "../../base/thrown.ts";
import { isoTime } from "../../base/units.ts";
import { replaceFile } from "../files/replace-file.ts";
import { type DiscoveryAnswer, digestOf, RATE_LIMIT_TYPE, type WireResource } from "./discovery.ts";

/** A kept set, and when it was kept. */
interface KeptSet {
  readonly set: Pick<DiscoveryAnswer, "version" | "resources" | "digest">;
  readonly savedAtUs: number;
}

/** The `format` of the head line. */
const FORMAT = "headgate rules cache 1";

interface Head {
  readonly format: string;
  readonly saved_at: string;
  readonly version: string;
  /** Digest of all resources (`digestOf`), to detect a file that was cut or changed. */
  readonly digest: string;
}

/** True if the text begins as a RULES_CACHE file. */
export function isCacheText(text: string): boolean {
  return text.startsWith(`{"format":"${FORMAT}"`);
}

/** The set in a file's text. Throws an Error with one sentence if the text is damaged. */
export function readCacheText(text: string): KeptSet {
  const [first = "", ...lines] = text.split("\n");
  const { version, savedAtUs, digest } = readHead(first);
  // The text after the last line feed must be empty. A resource itself may be an empty line.
  if (lines.pop() !== "") throw new Error("its last line has no end: it was cut or changed");
  const resources: WireResource[] = lines.map((line) => ({
    typeUrl: RATE_LIMIT_TYPE,
    value: Buffer.from(new Uint8Array(Buffer.from(line, "base64")).buffer),
  }));
  if (runThrough(digestOf(resources)) !== digest) throw new Error("its digest does not match: it was cut or changed");
  return { set: { version, resources, digest }, savedAtUs };
}

function readHead(line: string): { version: string; savedAtUs: number; digest: string } {
  const head: unknown = JSON.parse(line);
  if (!isHead(head)) throw new Error(`expected a first line with format '${FORMAT}', saved_at, version and digest`);
  const savedAtUs = Date.parse(head.saved_at) * 1_000;
  if (Number.isNaN(savedAtUs)) throw new Error(`expected a time as saved_at, got ${JSON.stringify(head.saved_at)}`);
  return { version: head.version, savedAtUs, digest: head.digest };
}

function isHead(value: unknown): value is Head {
  if (!isRecord(value) || value.format !== FORMAT) return false;
  return [value.saved_at, value.version, value.digest].every((text) => typeof text === "string");
}

function* linesOf(head: Head, resources: readonly WireResource[]): Generator<string> {
  yield JSON.stringify(head);
  for (const { value } of resources) yield value.toString("base64");
}

/** The file of one control plane. */
export class CacheFile {
  readonly #path: string;
  readonly #log: Pick<Log, "warn">;
  readonly #writes = new LatestRun<KeptSet, void>((kept) => this.#write(kept));
  #writtenDigest: string | undefined;

  constructor(path: string, log: Pick<Log, "warn">) {
    this.#path = path;
    this.#log = log;
  }

  /** The kept set. Undefined if there is no file, or if it can't be used, which is logged. */
  async read(): Promise<KeptSet | undefined> {
    try {
      return readCacheText(await readFile(this.#path, "utf8"));
    } catch (cause) {
      if (errorCode(cause) === "ENOENT") return undefined;
      this.#log.warn({ file: this.#path, reason: errorMessage(cause) }, "can't read the rules in RULES_CACHE");
      return undefined;
    }
  }

  /**
   * Keeps a set. Of several sets that come while one is written, only the last is written. Resolves when this set or a
   * later one is written or has failed. Never rejects, because rules are in force without the file too: failures are
   * logged.
   */
  write(set: KeptSet["set"], savedAtUs: number): Promise<void> {
    return this.#writes.run({ set, savedAtUs });
  }

  async #write({ set: { version, resources, digest }, savedAtUs }: KeptSet): Promise<void> {
    if (digest === this.#writtenDigest) return;
    try {
      const head: Head = { format: FORMAT, saved_at: isoTime(savedAtUs), version, digest };
      await replaceFile(this.#path, linesOf(head, resources));
      this.#writtenDigest = digest;
    } catch (cause) {
      this.#log.warn({ file: this.#path, reason: errorMessage(cause) }, "can't write the rules to RULES_CACHE");
    }
  }
}
