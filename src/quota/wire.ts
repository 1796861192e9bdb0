// Reads and writes the messages of StreamRateLimitQuotas. Reports are read as they are: those of Envoy break its own
// rules (a time of 0 in the first one).

import { malformed, WireReader, WireType, WireWriter } from "../base/wire.ts";
import { TTL_SECONDS } from "./handed-bucket.ts";
import type { EnvoyPart, Strategy } from "./part.ts";

const VARINT = WireType.varint;
const BYTES = WireType.bytes;

/** Buckets of one stream that are handed out; others are denied. A message of so many takes some 5 ms. */
export const BUCKETS_PER_STREAM_MAX = 4_096;
/** Longer ids are not read: 64 entries with keys and values of 64 KiB would be 8 MiB. */
const ID_BYTES_MAX = 8_192;
const ENTRIES_MAX = 64;
/** Larger counts of one report count as this. */
const COUNT_MAX = 4_294_967_295;

/** An id's entries, in the order of their keys. One-byte text. */
export type Entries = readonly (readonly [key: string, value: string])[];

export interface ReadUsage {
  /** The wire form of the BucketId. */
  readonly id: Buffer;
  readonly entries: Entries;
  readonly passed: number;
  readonly refused: number;
  /** False in the first report of a bucket, whose time is 0. */
  readonly isContinued: boolean;
}

export interface ReadReports {
  /** One-byte; empty if the message has none. */
  readonly domain: string;
  readonly usages: readonly ReadUsage[];
  /** Further usages, which were not read. */
  readonly skipped: number;
}

const reader = new WireReader();
const idReader = new WireReader();

/** Reads a RateLimitQuotaUsageReports. Throws RequestError. */
export function readReports(message: Buffer): ReadReports {
  const usages: ReadUsage[] = [];
  let domain = "";
  let skipped = 0;
  reader.open(message);
  try {
    while (reader.position < reader.end) {
      const tag = reader.readTag();
      if (tag === ((1 << 3) | BYTES)) domain = reader.readText(reader.readEnd());
      else if (tag !== ((2 << 3) | BYTES)) reader.skip(tag);
      else if (usages.length < BUCKETS_PER_STREAM_MAX) usages.push(readUsage(message));
      else {
        reader.skip(tag);
        skipped++;
      }
    }
    return { domain, usages, skipped };
  } finally {
    reader.close();
  }
}

function readUsage(message: Buffer): ReadUsage {
  const end = reader.readEnd();
  const outer = reader.end;
  reader.end = end;
  let id: Buffer = EMPTY;
  let passed = 0;
  let refused = 0;
  let isContinued = false;
  while (reader.position < end) {
    const tag = reader.readTag();
    if (tag === ((1 << 3) | BYTES)) {
      const idEnd = reader.readEnd();
      id = message.subarray(reader.position, idEnd);
      reader.position = idEnd;
    } else if (tag === ((2 << 3) | BYTES)) isContinued = readElapsed();
    else if (tag === ((3 << 3) | VARINT)) passed = readCount();
    else if (tag === ((4 << 3) | VARINT)) refused = readCount();
    else reader.skip(tag);
  }
  reader.end = outer;
  return { id, entries: idEntriesOf(id), passed, refused, isContinued };
}

const EMPTY = Buffer.alloc(0);

function readCount(): number {
  const low = reader.readVarint();
  return reader.high > 0 ? COUNT_MAX : low;
}

/** Whether a Duration is not 0. */
function readElapsed(): boolean {
  const end = reader.readEnd();
  let isAbove = false;
  while (reader.position < end) {
    const tag = reader.readTag();
    if (tag !== ((1 << 3) | VARINT) && tag !== ((2 << 3) | VARINT)) reader.skip(tag);
    else if ((reader.readVarint() | reader.high) !== 0) isAbove = true;
  }
  return isAbove;
}

/** The entries of a BucketId, in the order of their keys. Throws RequestError. */
export function idEntriesOf(id: Buffer): Entries {
  if (id.length > ID_BYTES_MAX) throw malformed(`a bucket id of at most ${ID_BYTES_MAX} bytes`, 0);
  const entries: [string, string][] = [];
  idReader.open(id);
  try {
    while (idReader.position < idReader.end) {
      const tag = idReader.readTag();
      if (tag !== ((1 << 3) | BYTES)) idReader.skip(tag);
      else if (entries.length < ENTRIES_MAX) entries.push(readEntry());
      else throw malformed(`a bucket id of at most ${ENTRIES_MAX} entries`, idReader.position);
    }
    return entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  } finally {
    idReader.close();
  }
}

function readEntry(): [string, string] {
  const end = idReader.readEnd();
  const outer = idReader.end;
  idReader.end = end;
  let key = "";
  let value = "";
  while (idReader.position < end) {
    const tag = idReader.readTag();
    if (tag === ((1 << 3) | BYTES)) key = idReader.readText(idReader.readEnd());
    else if (tag === ((2 << 3) | BYTES)) value = idReader.readText(idReader.readEnd());
    else idReader.skip(tag);
  }
  idReader.end = outer;
  return [key, value];
}

/** The same text for ids with the same entries. */
export function idKeyOf(entries: Entries): string {
  return JSON.stringify(entries);
}

const ALLOW_ALL = 0;
const DENY_ALL = 1;
const FILL_SECONDS = 60;

/** Writes a RateLimitQuotaResponse. */
export class ResponseWriter {
  readonly #writer = new WireWriter();
  actions = 0;

  begin(): void {
    this.#writer.clear();
    this.actions = 0;
  }

  /** The message so far, valid until the next `begin`. */
  view(): Uint8Array {
    return this.#writer.view();
  }

  assign({ id, strategy, rate, tokens }: Pick<EnvoyPart, "id" | "strategy" | "rate" | "tokens">): void {
    this.#action(id, () => {
      const at = this.#writer.openMessage(2);
      this.#duration(2, TTL_SECONDS);
      const strategyAt = this.#writer.openMessage(3);
      this.#strategy(strategy, rate, tokens);
      this.#writer.closeMessage(strategyAt);
      this.#writer.closeMessage(at);
    });
  }

  deny(id: Buffer): void {
    this.assign({ id, strategy: "deny", rate: 0, tokens: 0 });
  }

  abandon(id: Buffer): void {
    this.#action(id, () => this.#writer.closeMessage(this.#writer.openMessage(3)));
  }

  #action(id: Buffer, write: () => void): void {
    this.actions++;
    const at = this.#writer.openMessage(1);
    const idAt = this.#writer.openMessage(1);
    this.#writer.writeBytes(id);
    this.#writer.closeMessage(idAt);
    write();
    this.#writer.closeMessage(at);
  }

  #strategy(strategy: Strategy, perMinute: number, tokens: number): void {
    if (strategy !== "bucket") {
      this.#writer.writeVarintField(1, strategy === "allow" ? ALLOW_ALL : DENY_ALL);
      return;
    }
    const at = this.#writer.openMessage(3);
    this.#writer.writeVarintField(1, tokens);
    const fillAt = this.#writer.openMessage(2);
    this.#writer.writeVarintField(1, perMinute);
    this.#writer.closeMessage(fillAt);
    // Always the same: Envoy does not notice if only the seconds of the interval change.
    this.#duration(3, FILL_SECONDS);
    this.#writer.closeMessage(at);
  }

  #duration(field: number, seconds: number): void {
    const at = this.#writer.openMessage(field);
    this.#writer.writeVarintField(1, seconds);
    this.#writer.closeMessage(at);
  }
}
