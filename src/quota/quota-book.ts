// Streams of Envoys and the buckets that their ids lead to. Pure steps: a report, a closed stream, a tick or a change
// of the rules in; payments and messages out. All that grows has a bound.

import type { LimitStats } from "../engine/domain/stats.ts";
import type { Bank, Payer, Terms } from "./bank.ts";
import { HandedBucket, type Outlet, TTL_US } from "./handed-bucket.ts";
import { EnvoyPart, type PartOwner } from "./part.ts";
import { BUCKETS_PER_STREAM_MAX } from "./wire.ts";

/** Parts of all streams, of closed ones too while they stay paid, some 500 bytes each and their ids. */
const PARTS_MAX = 100_000;
/** Bytes of their ids, each of which is kept some five times: as it came, and in keys. */
const ID_BYTES_MAX = 16_777_216;
/** How often each id is looked up again, so that limits at run time apply. */
const LOOK_UP_US = 1_000_000;

/** Where a bucket id leads. */
export interface Found {
  /** The key of the bucket in the store. */
  readonly key: string;
  readonly terms: Terms;
  /** `deny` or `allow`: what a limit at run time says of all requests. */
  readonly mode: EnvoyPart["mode"];
}

/** Finds buckets by what Envoys call them. */
export interface Finder {
  /** Undefined if no rule with `hand_out` has the id. `domain`: one-byte. */
  find(domain: string, id: Buffer): Found | undefined;
}

/** A part, and the bucket that it is of. */
interface Member {
  readonly part: EnvoyPart;
  readonly bucket: HandedBucket;
}

/** A stream of one Envoy. */
export class QuotaStream implements PartOwner {
  domain = "";
  isBehind = false;
  /** By bucket id. */
  readonly parts = new Map<string, Member>();
  reportedUs: number;
  /** What Envoy is to be told next. It waits here while the stream does not read. */
  readonly unsent = new Set<EnvoyPart>();
  readonly abandoned: EnvoyPart[] = [];

  constructor(nowUs: number) {
    this.reportedUs = nowUs;
  }
}

/** One bucket of a report. */
interface Usage {
  readonly id: Buffer;
  /** `id` as a key: equal for equal ids. */
  readonly idKey: string;
  readonly passed: number;
  readonly refused: number;
  /** False if this is the first report of the bucket since Envoy knows it. */
  readonly isContinued: boolean;
}

/** Counters for metrics. */
export interface QuotaCounts {
  reports: number;
  /** Requests that Envoys have decided. */
  passed: number;
  refused: number;
  /** Buckets of reports that are denied, because no rule hands them out, or for their number. */
  unknown: number;
  tooMany: number;
  refusedStreams: number;
}

/** What a report's bucket came to. */
type ReportOutcome = "handed-out" | "unknown" | "too-many";

export class QuotaBook implements Outlet {
  readonly streams = new Set<QuotaStream>();
  readonly buckets = new Map<string, HandedBucket>();
  readonly #finder: Finder;
  readonly #payer: Payer;
  /** Streams with something to send. */
  readonly unsent = new Set<QuotaStream>();
  partCount = 0;
  #idBytes = 0;
  #lookedUpUs = 0;
  #lookUp: Iterator<void> | undefined;

  constructor(finder: Finder, payer: Payer) {
    this.#finder = finder;
    this.#payer = payer;
  }

  pay(bank: Bank, tokens: number): void {
    this.#payer.pay(bank, tokens);
  }

  charge(bank: Bank, tokens: number): void {
    this.#payer.charge(bank, tokens);
  }

  assign(part: EnvoyPart): void {
    const stream = part.owner as QuotaStream;
    stream.unsent.add(part);
    this.unsent.add(stream);
  }

  abandon(part: EnvoyPart): void {
    const stream = part.owner as QuotaStream;
    stream.unsent.delete(part);
    stream.abandoned.push(part);
    this.unsent.add(stream);
  }

  dropped({ id }: EnvoyPart): void {
    this.partCount--;
    this.#idBytes -= id.length;
  }

  open(nowUs: number): QuotaStream {
    const stream = new QuotaStream(nowUs);
    this.streams.add(stream);
    return stream;
  }

  /** Notes one bucket of a report. */
  report(stream: QuotaStream, usage: Usage, nowUs: number): ReportOutcome {
    stream.reportedUs = nowUs;
    let member = stream.parts.get(usage.idKey);
    const isNew = member === undefined;
    if (member === undefined) {
      const found = this.#finder.find(stream.domain, usage.id);
      if (found === undefined) return "unknown";
      if (stream.parts.size >= BUCKETS_PER_STREAM_MAX || !this.#hasRoomFor(usage)) return "too-many";
      member = this.#add(stream, usage, found, nowUs);
    }
    const { part, bucket } = member;
    countDecided(bucket.bank.terms.limit.stats, usage);
    bucket.report(part, usage.passed, usage.refused, isNew, nowUs);
    if (part.isOrphan) stream.parts.delete(usage.idKey);
    // A new part does not wait for the next tick.
    if (isNew) bucket.tick(nowUs);
    return "handed-out";
  }

  #hasRoomFor({ id }: Usage): boolean {
    return this.partCount < PARTS_MAX && this.#idBytes + id.length <= ID_BYTES_MAX;
  }

  #add(stream: QuotaStream, { id, idKey, passed, isContinued }: Usage, found: Found, nowUs: number): Member {
    const part = new EnvoyPart(stream, Buffer.from(id), nowUs);
    part.mode = found.mode;
    const bucket = this.#bucketOf(found, nowUs);
    const member = { part, bucket };
    stream.parts.set(idKey, member);
    this.partCount++;
    this.#idBytes += id.length;
    if (isContinued) bucket.adopt(part, passed > 0);
    bucket.add(part);
    return member;
  }

  #bucketOf({ key, terms }: Found, nowUs: number): HandedBucket {
    let bucket = this.buckets.get(key);
    if (bucket === undefined) {
      bucket = new HandedBucket(key, terms, this, nowUs);
      this.buckets.set(key, bucket);
    }
    return bucket;
  }

  /** Notes that the stream is over. What its Envoy has stays paid until it expires, or until one comes back. */
  close(stream: QuotaStream, nowUs: number): void {
    if (!this.streams.delete(stream)) return;
    for (const { part, bucket } of stream.parts.values()) bucket.orphan(part, nowUs);
    stream.parts.clear();
    this.unsent.delete(stream);
  }

  /** Notes that all of `stream.unsent` and `stream.abandoned` goes out now. `isBehind`: the stream does not read it. */
  sent(stream: QuotaStream, isBehind: boolean, nowUs: number): void {
    for (const part of stream.unsent) part.expiresUs = nowUs + TTL_US;
    if (isBehind && !stream.isBehind) {
      stream.isBehind = true;
      for (const { part } of stream.parts.values()) part.fellBehind();
      for (const part of stream.abandoned) part.fellBehind();
    }
    stream.unsent.clear();
    stream.abandoned.length = 0;
    this.unsent.delete(stream);
  }

  /** Notes that the stream has read all that was sent. */
  read(stream: QuotaStream, nowUs: number): void {
    if (!stream.isBehind) return;
    stream.isBehind = false;
    for (const { part, bucket } of stream.parts.values()) bucket.read(part, nowUs);
    if (stream.unsent.size + stream.abandoned.length > 0) this.unsent.add(stream);
  }

  tick(nowUs: number): void {
    this.#nowUs = nowUs;
    for (const bucket of this.buckets.values()) {
      bucket.tick(nowUs);
      if (bucket.parts.size === 0 && !bucket.bank.isPaying) this.buckets.delete(bucket.bank.key);
    }
    if (this.#lookUp === undefined && nowUs - this.#lookedUpUs >= LOOK_UP_US) {
      this.#lookedUpUs = nowUs;
      this.#lookUp = this.#lookUpAll();
    }
    for (let i = 0; i < LOOK_UPS_PER_TICK && this.#lookUp !== undefined; i++)
      if (this.#lookUp.next().done === true) this.#lookUp = undefined;
  }

  #nowUs = 0;

  /** Looks up all ids again, each bucket's equal ones once. */
  *#lookUpAll(): Generator<void> {
    const found = new Map<string, Found | undefined>();
    for (const stream of [...this.streams]) {
      for (const [idKey, member] of stream.parts) {
        const key = `${stream.domain}\0${idKey}`;
        yield;
        if (!found.has(key)) found.set(key, this.#finder.find(stream.domain, member.part.id));
        this.#apply(stream, idKey, member, found.get(key));
      }
    }
  }

  #apply(stream: QuotaStream, idKey: string, member: Member, found: Found | undefined): void {
    const { part, bucket } = member;
    if (!this.streams.has(stream) || stream.parts.get(idKey) !== member) return;
    if (found === undefined || found.key !== bucket.bank.key) {
      // Envoy reports it as a new one, and then gets what the rules say by now.
      bucket.abandon(part, this.#nowUs);
      stream.parts.delete(idKey);
      return;
    }
    if (!sameTerms(bucket.bank.terms, found.terms)) bucket.setTerms(found.terms);
    if (part.mode !== found.mode) {
      part.mode = found.mode;
      bucket.touch();
    }
  }
}

/** A look-up takes at most 2 us, and all PARTS_MAX less than a second. */
const LOOK_UPS_PER_TICK = 4_000;

function sameTerms(a: Terms, b: Terms): boolean {
  return a.limit === b.limit && a.processes === b.processes && a.handOut === b.handOut;
}

/** What Envoy has decided counts for the rule as if it had been asked. */
function countDecided(stats: LimitStats, { passed, refused }: Usage): void {
  stats.totalHits += passed + refused;
  stats.withinLimit += passed;
  stats.overLimit += refused;
}
