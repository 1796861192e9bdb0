// StreamRateLimitQuotas on bytes: reads reports, has the book note them, and sends what Envoys are told. Keeps the
// clock of the book: it ticks while something is handed out.

import type { Clock } from "../base/clock.ts";
import { errorMessage } from "../base/thrown.ts";
import type { RuleSet } from "../engine/rules/rule-set.ts";
import type { StreamCall, StreamMethod } from "../grpc/streams.ts";
import { GrpcStatus } from "../grpc/unary.ts";
import { TICK_US } from "./bank.ts";
import { SILENT_US } from "./handed-bucket.ts";
import type { QuotaBook, QuotaCounts, QuotaStream } from "./quota-book.ts";
import { type UnknownBucket, UnknownBuckets } from "./unknown-buckets.ts";
import { idKeyOf, type ReadReports, type ReadUsage, ResponseWriter, readReports } from "./wire.ts";

/** Streams at once. Beyond it, streams that are silent go for those that report. */
export const STREAMS_MAX = 2_000;

export interface QuotaObserver {
  /** A bucket that no rule hands out, once a minute for each kind of id. */
  unknown(bucket: UnknownBucket): void;
  failed(error: unknown): void;
}

interface QuotaServiceOptions {
  readonly path: string;
  readonly book: QuotaBook;
  readonly clock: Clock;
  readonly rules: () => RuleSet | undefined;
  readonly observer: QuotaObserver;
}

/** One call, and its stream in the book. */
interface Peer {
  readonly call: StreamCall;
  readonly stream: QuotaStream;
  /** Ids to be denied with the next message. */
  readonly denied: Buffer[];
}

export class QuotaService implements StreamMethod {
  readonly path: string;
  readonly takesMany = true;
  readonly counts: QuotaCounts = { reports: 0, passed: 0, refused: 0, unknown: 0, tooMany: 0, refusedStreams: 0 };
  readonly unknown = new UnknownBuckets();
  readonly #options: QuotaServiceOptions;
  readonly #peers = new Map<StreamCall, Peer>();
  readonly #peerOf = new Map<QuotaStream, Peer>();
  readonly #writer = new ResponseWriter();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: QuotaServiceOptions) {
    this.path = options.path;
    this.#options = options;
  }

  handle(message: Buffer | undefined, call: StreamCall): void {
    const peer = this.#peers.get(call) ?? this.#open(call);
    if (peer === undefined) return;
    if (message === undefined) {
      call.end();
      return;
    }
    const reports = this.#read(message, call);
    if (reports === undefined) return;
    const { stream } = peer;
    if (stream.domain === "") stream.domain = reports.domain;
    if (stream.domain === "" || (reports.domain !== "" && reports.domain !== stream.domain)) {
      const details = "expected one domain for all reports of a stream, in the first of them";
      call.end({ code: GrpcStatus.invalidArgument, details });
      return;
    }
    this.#note(peer, reports);
    this.#flush();
    if (peer.denied.length > 0) this.#send(peer);
  }

  #read(message: Buffer, call: StreamCall): ReadReports | undefined {
    try {
      return readReports(message);
    } catch (error) {
      call.end({ code: GrpcStatus.invalidArgument, details: errorMessage(error) });
      return undefined;
    }
  }

  #note({ stream, denied }: Peer, { usages, skipped }: ReadReports): void {
    const { book, clock } = this.#options;
    const nowUs = clock.nowUs();
    this.counts.reports++;
    this.counts.tooMany += skipped;
    for (const usage of usages) {
      const outcome = book.report(stream, { ...usage, idKey: idKeyOf(usage.entries) }, nowUs);
      if (outcome === "handed-out") {
        this.counts.passed += usage.passed;
        this.counts.refused += usage.refused;
        continue;
      }
      denied.push(usage.id);
      if (outcome === "too-many") this.counts.tooMany++;
      else this.#noteUnknown(stream, usage, nowUs);
    }
  }

  #noteUnknown({ domain }: QuotaStream, { entries }: ReadUsage, nowUs: number): void {
    this.counts.unknown++;
    const news = this.unknown.note(this.#options.rules(), domain, entries, nowUs);
    if (news !== undefined) this.#options.observer.unknown(news);
  }

  #open(call: StreamCall): Peer | undefined {
    const { book, clock } = this.#options;
    const nowUs = clock.nowUs();
    if (this.#isClosed) call.end({ code: GrpcStatus.unavailable, details: "the server is shutting down" });
    else if (this.#peers.size >= STREAMS_MAX && !this.#endSilent(nowUs)) {
      this.counts.refusedStreams++;
      call.end({ code: GrpcStatus.resourceExhausted, details: `more than ${STREAMS_MAX} streams for quota` });
    } else {
      const peer: Peer = { call, stream: book.open(nowUs), denied: [] };
      this.#peers.set(call, peer);
      this.#peerOf.set(peer.stream, peer);
      call.onOver(() => this.#close(peer));
      call.onRead(() => {
        book.read(peer.stream, clock.nowUs());
        this.#flush();
      });
      this.#timer ??= setInterval(() => this.#tick(), TICK_US / 1_000).unref();
      return peer;
    }
    return undefined;
  }

  #endSilent(nowUs: number): boolean {
    for (const { call, stream } of this.#peers.values()) {
      if (nowUs - stream.reportedUs < SILENT_US) continue;
      call.end({
        code: GrpcStatus.resourceExhausted,
        details: "the stream has not reported, and others want its place",
      });
      return true;
    }
    return false;
  }

  #close(peer: Peer): void {
    if (!this.#peers.delete(peer.call)) return;
    this.#peerOf.delete(peer.stream);
    this.#options.book.close(peer.stream, this.#options.clock.nowUs());
  }

  #tick(): void {
    const { book, clock, observer } = this.#options;
    try {
      book.tick(clock.nowUs());
      this.#flush();
    } catch (error) {
      observer.failed(error);
    }
    if (this.#peers.size > 0 || book.buckets.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Sends to all streams that are to be told something and read what they are sent. */
  #flush(): void {
    for (const stream of this.#options.book.unsent) {
      const peer = this.#peerOf.get(stream);
      if (peer !== undefined && !stream.isBehind) this.#send(peer);
    }
  }

  #send({ call, stream, denied }: Peer): void {
    const { book, clock } = this.#options;
    const writer = this.#writer;
    if (stream.isBehind) {
      // It asks again.
      denied.length = 0;
      return;
    }
    writer.begin();
    for (const { id } of stream.abandoned) writer.abandon(id);
    for (const part of stream.unsent) writer.assign(part);
    for (const id of denied) writer.deny(id);
    denied.length = 0;
    if (writer.actions > 0) call.answer(writer.view());
    book.sent(stream, call.unread > 0, clock.nowUs());
  }

  /** Ends all streams, for a shutdown: Envoys go on with what they have, and report to another process. */
  close(): void {
    this.#isClosed = true;
    for (const { call } of [...this.#peers.values()]) call.end();
  }
}
