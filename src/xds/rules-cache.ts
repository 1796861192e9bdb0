// The last good set of a control plane in a file (RULES_CACHE): a first line that says what it is, then a line for each
// resource. Replaced as a whole, so that who reads it never finds half a set.

import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { errorCode, errorMessage } from "../core/thrown.ts";
import { isoTime } from "../core/units.ts";
import { type DiscoveryAnswer, digestOf, RATE_LIMIT_TYPE, type WireResource } from "./discovery.ts";

/** A set that was kept, and when. */
interface KeptSet {
  readonly set: Pick<DiscoveryAnswer, "version" | "resources" | "digest">;
  readonly savedAtUs: number;
}

/** What reading and writing is told to. */
interface CacheLog {
  warn(fields: object, message: string): void;
}

/** What the first line begins with. */
const FORMAT = "headgate rules cache 1";
/** Characters of resources between two turns of the event loop. */
const PART_CHARS = 1_048_576;

interface Head {
  readonly format: string;
  readonly saved_at: string;
  readonly version: string;
  /** Of all resources; a file that was cut or changed has another one. */
  readonly digest: string;
}

/** True if the text is such a file. */
export function isCacheText(text: string): boolean {
  return text.startsWith(`{"format":"${FORMAT}"`);
}

/** The set that a file's text holds. Throws an Error with one sentence if it is damaged. */
export function readCacheText(text: string): KeptSet {
  const [first = "", ...lines] = text.split("\n");
  const { version, savedAtUs, digest } = readHead(first);
  // What stands behind the last line end; a resource may have no bytes.
  if (lines.pop() !== "") throw new Error("its last line has no end: it was cut or changed");
  const resources: WireResource[] = lines.map((line) => ({
    typeUrl: RATE_LIMIT_TYPE,
    value: Buffer.from(new Uint8Array(Buffer.from(line, "base64")).buffer),
  }));
  if (digestOf(resources) !== digest) throw new Error("its digest is another one: it was cut or changed");
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
  if (typeof value !== "object" || value === null) return false;
  const head: Partial<Record<keyof Head, unknown>> = value;
  if (head.format !== FORMAT) return false;
  return [head.saved_at, head.version, head.digest].every((text) => typeof text === "string");
}

/** One file. */
export class CacheFile {
  readonly #path: string;
  readonly #log: CacheLog;
  #writtenDigest: string | undefined;
  /** The set that is to be written next. */
  #next: KeptSet | undefined;
  #writing: Promise<void> | undefined;

  constructor(path: string, log: CacheLog) {
    this.#path = path;
    this.#log = log;
  }

  /** What was kept; undefined, said in the log unless there is no file, if nothing can be read. */
  async read(): Promise<KeptSet | undefined> {
    try {
      return readCacheText(await readFile(this.#path, "utf8"));
    } catch (cause) {
      if (errorCode(cause) === "ENOENT") return undefined;
      this.#log.warn(
        { file: this.#path, reason: errorMessage(cause) },
        "the rules that RULES_CACHE has kept can't be read",
      );
      return undefined;
    }
  }

  /**
   * Keeps a set; of several that come while one is written the last. Resolves when the file has the last one, and never rejects:
   * rules are in force without it, too, and nothing should wait for a disk.
   */
  write(set: KeptSet["set"], savedAtUs: number): Promise<void> {
    this.#next = { set, savedAtUs };
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  async #writeAll(): Promise<void> {
    for (let next = this.#next; next !== undefined; next = this.#next) {
      this.#next = undefined;
      if (next.set.digest !== this.#writtenDigest) await this.#writeOne(next);
    }
  }

  async #writeOne({ set: { version, resources, digest }, savedAtUs }: KeptSet): Promise<void> {
    const draft = `${this.#path}.new`;
    try {
      await mkdir(dirname(this.#path), { recursive: true });
      const file = await open(draft, "w", 0o600);
      try {
        const head: Head = { format: FORMAT, saved_at: isoTime(savedAtUs), version, digest };
        await file.write(`${JSON.stringify(head)}\n`);
        let part = "";
        for (const { value } of resources) {
          part += `${value.toString("base64")}\n`;
          if (part.length < PART_CHARS) continue;
          await file.write(part);
          await nextTurn();
          part = "";
        }
        await file.write(part);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(draft, this.#path);
      this.#writtenDigest = digest;
    } catch (cause) {
      await rm(draft, { force: true }).catch(() => undefined);
      this.#log.warn({ file: this.#path, reason: errorMessage(cause) }, "the rules can't be kept in RULES_CACHE");
    }
  }
}
