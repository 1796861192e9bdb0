// Sends counters to a statsd server with hot-shots, under the names of envoyproxy/ratelimit. Reads plain counters at
// intervals and sends what has changed, off the decision path. Response times go to Prometheus only: statsd would need
// each one.

import { StatsD } from "hot-shots";
import type { Clock } from "../../base/clock.ts";
import { MICROS_PER_SECOND } from "../../base/units.ts";
import { waitAtMost } from "../../base/wait-at-most.ts";
import { oneByteOf, textOf } from "../../engine/domain/request.ts";
import type { Settings } from "../../settings/settings.ts";
import { RULE_COUNTERS, RULE_METRICS } from "./metrics.ts";
import type { CallCounts } from "./observers.ts";
import type { RateLimitedLog } from "./rate-limited-log.ts";
import { shortText } from "./short-text.ts";
import type { LimitStatsBook } from "./stats-book.ts";

/** Where to send. EXTRA_TAGS are appended to every name as `.__key=value`; DogStatsD gets them as tags. */
type StatsdSettings = Pick<
  Settings,
  "statsdHost" | "statsdPort" | "statsdProtocol" | "statsFlushIntervalMs" | "extraTags" | "usesDogStatsd"
>;

interface StatsdSources {
  readonly calls: CallCounts;
  readonly reloads: () => { readonly loads: number; readonly failures: number };
  readonly statsBook: LimitStatsBook;
  /** From local caches. */
  readonly gauges: () => Iterable<readonly [name: string, value: number]>;
  readonly log: RateLimitedLog;
  readonly clock: Clock;
}

/** Counters of a rule: the field, and the last part of the name: the metric's name without the common part. */
const SENT = RULE_COUNTERS.filter((field) => RULE_METRICS[field].kind === "counter").map((field) => {
  const name = RULE_METRICS[field].name.replace(/^(ratelimit_service_rate_limit|headgate)_|_total$/g, "");
  return [field, name] as const;
});
/** Fits into an Ethernet packet; hot-shots fills a packet with as many counters as fit. */
const BUFFER_BYTES = 1_400;
/** Longest part of a name that rules and callers choose; the whole name then fits into a packet. */
const NAME_BYTES_MAX = 512;
const BUFFER_FLUSH_MS = 20;
/** A TCP server that takes nothing for this long gets a new connection. */
const SILENCE_US_MAX = 10 * MICROS_PER_SECOND;
/** Most changed counters that wait for the server; those beyond are lost, and count as errors. */
const DUE_MAX = 1_000_000;
/** Longest wait for the last counters to be written. */
const CLOSE_MS_MAX = 1_000;

/** Sends changes every `flushMs` milliseconds, and once more when it is closed. */
export class StatsdExporter {
  readonly #settings: StatsdSettings;
  readonly #sources: StatsdSources;
  readonly #suffix: string;
  readonly #timer: NodeJS.Timeout;
  /** Changes to send, by name. They outlive their rule. */
  #due = new Map<string, number>();
  /** What the last flush sent. */
  #last = new Map<string, number>();
  /** What was read last: of rules and domains by their stats, totals by name. */
  readonly #read = new WeakMap<object, readonly number[]>();
  readonly #totals = new Map<string, number>();
  #link: { readonly client: StatsD; hasFailed: boolean };
  /** Since when the connection has had something to write. */
  #writesSinceUs: number | undefined;
  /** Errors while sending, since the start. */
  errors = 0;

  constructor(settings: StatsdSettings, sources: StatsdSources) {
    this.#settings = settings;
    this.#sources = sources;
    this.#suffix = settings.usesDogStatsd ? "" : tagSuffix(settings.extraTags);
    this.#link = this.#open();
    this.#timer = setInterval(() => this.flush(), settings.statsFlushIntervalMs).unref();
  }

  /**
   * Sends what was counted since the last flush, but waits until that is written: a server that reads nothing must not
   * cost memory. Never throws.
   */
  flush(): void {
    this.#collect();
    if (this.#stillWrites()) return;
    this.#reopen();
    for (const [name, delta] of this.#due) this.#link.client.increment(name + this.#suffix, delta);
    this.#last = this.#due;
    this.#due = new Map();
    for (const [name, value] of this.#sources.gauges()) this.#link.client.gauge(name + this.#suffix, value);
  }

  #collect(): void {
    const { calls, reloads, statsBook } = this.#sources;
    // Two limits of one rule share a name, as in envoyproxy/ratelimit; the server adds them up.
    for (const { domain, path, stats } of statsBook.entries()) {
      const news = this.#newOf(
        stats,
        SENT.map(([field]) => stats[field]),
      );
      if (news.every((isNew) => isNew === 0)) continue;
      const rule = `ratelimit.service.rate_limit.${ruleName(domain, path)}`;
      for (const [i, [, name]] of SENT.entries()) this.#add(`${rule}.${name}`, news[i] ?? 0);
    }
    for (const { domain, hasRules, stats } of calls.domains.entries()) {
      const [isNew = 0] = this.#newOf(stats, [stats.descriptors]);
      // What met no rule while the domain had rules is not sent when a reload takes them away.
      if (!hasRules) this.#add(`ratelimit.service.rate_limit.${sanitized(domain)}.domain_not_found`, isNew);
    }
    const { loads, failures } = reloads();
    const totals = {
      "ratelimit.service.config_load_success": loads,
      "ratelimit.service.config_load_error": failures,
      "ratelimit.service.global_shadow_mode": calls.globalShadows,
      "ratelimit.service.call.should_rate_limit.redis_error": calls.storeErrors(),
      "ratelimit.service.call.should_rate_limit.service_error": calls.serviceErrors(),
      "ratelimit_server.ShouldRateLimit.total_requests": calls.total(),
    };
    for (const [name, total] of Object.entries(totals)) {
      this.#add(name, total - (this.#totals.get(name) ?? 0));
      this.#totals.set(name, total);
    }
  }

  /** What the counters of `stats` have grown by since they were last read. */
  #newOf(stats: object, counts: readonly number[]): readonly number[] {
    const before = this.#read.get(stats);
    this.#read.set(stats, counts);
    return counts.map((count, i) => count - (before?.[i] ?? 0));
  }

  /** Sends the last changes and closes the socket, within CLOSE_MS_MAX or a little more. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.flush();
    const { client } = this.#link;
    const closed = new Promise<void>((resolve) => {
      client.close(() => resolve());
    });
    // What still has to be written would keep the process.
    if (!(await waitAtMost(CLOSE_MS_MAX, closed))) client.socket.close();
  }

  #open(): { readonly client: StatsD; hasFailed: boolean } {
    const { statsdHost: host, statsdPort: port, statsdProtocol: protocol, extraTags, usesDogStatsd } = this.#settings;
    const client = new StatsD({
      host,
      port,
      protocol,
      maxBufferSize: BUFFER_BYTES,
      // A flush leaves within BUFFER_FLUSH_MS; the default of hot-shots is a second.
      bufferFlushInterval: BUFFER_FLUSH_MS,
      globalTags: usesDogStatsd ? Object.fromEntries(extraTags) : {},
      includeDataDogTags: usesDogStatsd,
      // hot-shots gives up for ever if a connection is refused within its first second; #reopen opens a new one
      // instead.
      tcpGracefulErrorHandling: false,
      errorHandler: (error) => this.#fail(link, error.message),
    });
    const link = { client, hasFailed: false };
    return link;
  }

  #fail(link: { hasFailed: boolean }, reason: string): void {
    link.hasFailed = true;
    this.errors++;
    this.#sources.log.warn("statsd", "statsd does not accept counters", () => ({ reason }));
  }

  #stillWrites(): boolean {
    const { client, hasFailed } = this.#link;
    // Not in the types of hot-shots: packets that the system has not taken yet.
    const { messagesInFlight = 0 } = client as { readonly messagesInFlight?: number };
    if (this.#settings.statsdProtocol === "udp" || hasFailed || messagesInFlight === 0) {
      this.#writesSinceUs = undefined;
      return false;
    }
    const nowUs = this.#sources.clock.nowUs();
    this.#writesSinceUs ??= nowUs;
    if (nowUs - this.#writesSinceUs < SILENCE_US_MAX) return true;
    this.#writesSinceUs = undefined;
    client.socket.close();
    this.#fail(this.#link, `it has read nothing for ${SILENCE_US_MAX / MICROS_PER_SECOND} s`);
    return false;
  }

  // Over TCP a server that was away gets what it missed: the failed flush is sent again on a new socket. What the
  // server had read before the connection broke counts twice, at most one flush. Over UDP nobody reports which packets
  // arrived: what is lost stays lost, and nothing counts twice.
  #reopen(): void {
    if (!this.#link.hasFailed) return;
    if (this.#settings.statsdProtocol === "tcp") for (const [name, delta] of this.#last) this.#add(name, delta);
    this.#link.client.close(() => undefined);
    this.#link = this.#open();
  }

  #add(name: string, delta: number): void {
    if (delta === 0) return;
    const due = this.#due.get(name);
    // A server that is away for many reloads must not cost memory for the rules of all of them.
    if (due === undefined && this.#due.size >= DUE_MAX) this.errors++;
    else this.#due.set(name, (due ?? 0) + delta);
  }
}

/**
 * The name of a rule in envoyproxy/ratelimit: the domain, a dot, and the elements of the path (maybe none), joined by
 * dots.
 */
function ruleName(domain: string, path: readonly string[]): string {
  return sanitized(`${textOf(domain)}.${path.map(textOf).join(".")}`);
}

// `:` and `|` end a name in statsd, and dots separate its parts, so the dots of an IPv4 address are replaced. Other
// dots stay, as in envoyproxy/ratelimit. Long names are cut.
function sanitized(name: string): string {
  const whole = name
    .replace(/(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])/g, (address) => address.replaceAll(".", "_"))
    .replace(/[:|\n]/g, "_");
  const isLong = Buffer.byteLength(whole) > NAME_BYTES_MAX;
  return isLong ? textOf(shortText(oneByteOf(whole), NAME_BYTES_MAX)) : whole;
}

function tagSuffix(tags: ReadonlyMap<string, string>): string {
  return [...tags]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([key, value]) => `.__${key}=${value}`)
    .join("");
}
