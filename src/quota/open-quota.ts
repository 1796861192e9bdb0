// The door of the room: makes what hands out quota, and what shows it.

import type { Clock } from "../base/clock.ts";
import { divideDown } from "../base/units.ts";
import { oneByteOf } from "../engine/domain/request.ts";
import type { Store } from "../engine/domain/store.ts";
import type { StreamMethod } from "../grpc/streams.ts";
import type { Finding } from "../operate/condition.ts";
import { BucketFinder, type FinderOptions } from "./find-bucket.ts";
import { StorePayer } from "./payments.ts";
import { QuotaBook, type QuotaCounts } from "./quota-book.ts";
import { type QuotaObserver, QuotaService } from "./quota-service.ts";
import { quotaFindings, quotaState, rowOf, wordsOf } from "./quota-view.ts";

const PATH = "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas";
const MINUTE_US = 60_000_000;

interface QuotaOptions extends FinderOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly observer: QuotaObserver;
}

export interface Quota {
  readonly method: StreamMethod;
  readonly counts: QuotaCounts;
  /** Streams, buckets, parts, and requests a second that are handed out. */
  totals(): Readonly<Record<"streams" | "buckets" | "parts" | "perSecond", number>>;
  /** Part of GET /state; null before the first report. */
  state(): ReturnType<typeof quotaState> | null;
  findings(): readonly Finding[];
  /** What is handed out of the bucket of these entries. */
  explain(domain: string, entries: readonly { readonly key: string; readonly value: string }[]): string | undefined;
  /** Ends all streams. */
  close(): void;
}

export function openQuota(options: QuotaOptions): Quota {
  const { clock, rules, observer, store } = options;
  const finder = new BucketFinder(options);
  const book = new QuotaBook(finder, new StorePayer(store, clock));
  const service = new QuotaService({ path: PATH, book, clock, rules, observer });
  const tooMany = { minute: 0, before: 0, count: 0 };
  const tooManyLately = (nowUs: number): number => {
    const minute = divideDown(nowUs, MINUTE_US);
    if (minute !== tooMany.minute) {
      tooMany.minute = minute;
      tooMany.before = tooMany.count;
      tooMany.count = service.counts.tooMany;
    }
    return service.counts.tooMany - tooMany.before;
  };
  return {
    method: service,
    counts: service.counts,
    totals: () => ({
      streams: book.streams.size,
      buckets: book.buckets.size,
      parts: book.partCount,
      perSecond: [...book.buckets.values()].reduce((sum, { bank }) => sum + bank.heldRate, 0) / 60,
    }),
    state: () => {
      const nowUs = clock.nowUs();
      const unknown = service.unknown.list(nowUs);
      return service.counts.reports === 0 ? null : quotaState(book, service.counts, unknown, nowUs);
    },
    findings: () => {
      const nowUs = clock.nowUs();
      return quotaFindings(book, service.unknown.list(nowUs), tooManyLately(nowUs), nowUs);
    },
    explain: (domain, entries) => {
      const id = entries.map(({ key, value }) => [oneByteOf(key), oneByteOf(value)] as const);
      const found = finder.findEntries(oneByteOf(domain), id);
      const bucket = found && book.buckets.get(found.key);
      return bucket && `handed out: ${wordsOf(rowOf(bucket, clock.nowUs()))}`;
    },
    close: () => service.close(),
  };
}
