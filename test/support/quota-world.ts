// Envoys, callers that ask, and the quota room between them and a memory store, in virtual time. Each message takes up to
// SETTLE_US; streams pause, close and come back; reports are late, lost and out of order, as a schedule says.

import { keyedOf } from "../../src/engine/domain/key-bytes.ts";
import type { Limit } from "../../src/engine/domain/limit.ts";
import { Mode, TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { TICK_US } from "../../src/quota/bank.ts";
import { StorePayer } from "../../src/quota/payments.ts";
import { QuotaBook, type QuotaStream } from "../../src/quota/quota-book.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { ManualClock } from "./manual-clock.ts";
import { SimulatedEnvoy, type Told } from "./simulated-envoys.ts";

const KEY = "{edge|tenant=acme}|tb/1";
const ID = Buffer.from("tenant=acme");
const HAND_OUT = { idleSeconds: 60, floorPercent: 1 };

/** What happens to one Envoy from a moment on. Rates are requests a second. */
export interface Change {
  readonly atMs: number;
  readonly envoy: number;
  readonly does:
    | { readonly kind: "demand"; readonly perSecond: number }
    /** Its stream ends; it goes on with what it has, and opens another at its next report unless it is dead. */
    | { readonly kind: "cut" }
    | { readonly kind: "dies" }
    /** It does not read, and so not send, for so long. */
    | { readonly kind: "pauses"; readonly ms: number }
    | { readonly kind: "loses-reports"; readonly count: number };
}

export interface Schedule {
  readonly seconds: number;
  readonly envoys: number;
  readonly changes: readonly Change[];
  /** What callers that ask want at each second. */
  readonly asked: readonly number[];
  /** How long each message takes, in ms, over and over. */
  readonly delaysMs: readonly number[];
}

interface Member {
  readonly envoy: SimulatedEnvoy;
  stream: QuotaStream | undefined;
  perSecond: number;
  owed: number;
  isDead: boolean;
  pausedUntilUs: number;
  lost: number;
  /** When the last message of each direction arrives. */
  readonly ways: Readonly<Record<"in" | "out", { lastUs: number }>>;
}

interface Event {
  readonly atUs: number;
  readonly order: number;
  readonly run: () => void;
}

/** One run of a schedule. */
export class QuotaWorld {
  readonly clock = new ManualClock(0);
  readonly store = new MemoryStore({ clock: this.clock });
  readonly book: QuotaBook;
  readonly members: Member[] = [];
  readonly limit: Limit;
  /** Requests that passed, by the ms in which they did; of callers that ask, and of each Envoy. */
  readonly passedAsked: number[] = [];
  readonly passed: number[][] = [];
  readonly #schedule: Schedule;
  readonly #group = new TakeGroup();
  readonly #key = keyedOf(KEY);
  #events: Event[] = [];
  #order = 0;
  #delay = 0;
  #owedAsked = 0;

  constructor(limit: Limit, schedule: Schedule) {
    this.limit = limit;
    this.#schedule = schedule;
    const found = { key: KEY, terms: { limit, handOut: HAND_OUT, processes: 1 }, mode: "bucket" as const };
    this.book = new QuotaBook({ find: () => found }, new StorePayer(this.store, this.clock));
    for (let i = 0; i < schedule.envoys; i++) {
      this.passed.push([]);
      this.members.push({
        envoy: new SimulatedEnvoy(),
        stream: undefined,
        perSecond: 0,
        owed: 0,
        isDead: false,
        pausedUntilUs: 0,
        lost: 0,
        ways: { in: { lastUs: 0 }, out: { lastUs: 0 } },
      });
    }
  }

  run(): this {
    const changes = this.#schedule.changes.toSorted((a, b) => a.atMs - b.atMs);
    let next = 0;
    for (let ms = 0; ms < this.#schedule.seconds * 1_000; ms++) {
      this.clock.setUs(1_000_000 + ms * 1_000);
      for (; next < changes.length && (changes[next] as Change).atMs <= ms; next++)
        this.#change(changes[next] as Change);
      this.#deliver();
      this.#request(ms);
      if ((ms * 1_000) % TICK_US === 0) this.book.tick(this.clock.nowUs());
      this.#send();
    }
    return this;
  }

  #change({ envoy, does }: Change): void {
    const member = this.members[envoy] as Member;
    const nowUs = this.clock.nowUs();
    if (does.kind === "demand") member.perSecond = does.perSecond;
    else if (does.kind === "pauses") member.pausedUntilUs = nowUs + does.ms * 1_000;
    else if (does.kind === "loses-reports") member.lost = does.count;
    else {
      if (does.kind === "dies") member.isDead = true;
      if (member.stream !== undefined) this.book.close(member.stream, nowUs);
      member.stream = undefined;
    }
  }

  /** Messages of a direction arrive in the order in which they were sent. */
  #later(way: Member["ways"]["in"], run: () => void): void {
    const { delaysMs } = this.#schedule;
    const ms = delaysMs[this.#delay++ % delaysMs.length] as number;
    way.lastUs = Math.max(way.lastUs, this.clock.nowUs() + ms * 1_000);
    this.#events.push({ atUs: way.lastUs, order: this.#order++, run });
  }

  #deliver(): void {
    const nowUs = this.clock.nowUs();
    const due = this.#events.filter(({ atUs }) => atUs <= nowUs);
    if (due.length === 0) return;
    this.#events = this.#events.filter(({ atUs }) => atUs > nowUs);
    for (const { run } of due.toSorted((a, b) => a.atUs - b.atUs || a.order - b.order)) run();
  }

  #request(ms: number): void {
    const nowUs = this.clock.nowUs();
    this.#owedAsked += (this.#schedule.asked[Math.floor(ms / 1_000)] ?? 0) / 1_000;
    let asked = 0;
    for (; this.#owedAsked >= 1; this.#owedAsked--) if (this.#ask()) asked++;
    this.passedAsked.push(asked);
    this.members.forEach((member, i) => {
      let passed = 0;
      member.owed += member.isDead ? 0 : member.perSecond / 1_000;
      for (; member.owed >= 1; member.owed--) if (member.envoy.decide(nowUs)) passed++;
      this.passed[i]?.push(passed);
      if (!member.isDead && nowUs >= member.pausedUntilUs && nowUs >= member.envoy.reportsUs) this.#report(member);
    });
  }

  /** A caller that asks. */
  #ask(): boolean {
    this.#group.reset();
    const take = this.#group.add(this.limit);
    take.useKeyOf(this.#key);
    take.mode = Mode.pay;
    take.cost = 1;
    this.store.take(this.#group);
    return this.#group.verdict === Verdict.allowed;
  }

  #report(member: Member): void {
    const report = member.envoy.report(this.clock.nowUs());
    if (member.lost > 0) {
      member.lost--;
      return;
    }
    this.#later(member.ways.in, () => {
      if (member.isDead) return;
      const nowUs = this.clock.nowUs();
      member.stream ??= this.book.open(nowUs);
      this.book.report(
        member.stream,
        {
          id: ID,
          idKey: ID.toString(),
          passed: report.passed,
          refused: report.refused,
          isContinued: report.seconds > 0,
        },
        nowUs,
      );
    });
  }

  /** What streams are told, as the service sends it: a stream that does not read is told later, and then once. */
  #send(): void {
    const nowUs = this.clock.nowUs();
    for (const member of this.members) {
      const { stream, envoy } = member;
      if (stream === undefined) continue;
      const isPaused = nowUs < member.pausedUntilUs;
      if (stream.isBehind) {
        if (isPaused) continue;
        this.book.read(stream, nowUs);
      }
      if (!this.book.unsent.has(stream)) continue;
      const messages: Told[] = stream.abandoned.map(() => ({ strategy: "abandon", perMinute: 0, tokens: 0 }));
      for (const { strategy, rate, tokens } of stream.unsent) messages.push({ strategy, perMinute: rate, tokens });
      this.book.sent(stream, isPaused, nowUs);
      const hear = () => {
        for (const message of messages) envoy.hear(message, this.clock.nowUs());
      };
      if (isPaused) this.#whenRead(member, hear);
      else this.#later(member.ways.out, hear);
    }
  }

  #whenRead(member: Member, run: () => void): void {
    member.ways.out.lastUs = member.pausedUntilUs;
    this.#events.push({ atUs: member.pausedUntilUs, order: this.#order++, run });
  }

  /** Requests that passed in the seconds from `from` up to `to`, in all. */
  total(from: number, to: number): number {
    const sum = (passed: readonly number[]) =>
      passed.slice(from * 1_000, to * 1_000).reduce((all, one) => all + one, 0);
    return sum(this.passedAsked) + this.passed.reduce((all, one) => all + sum(one), 0);
  }

  of(envoy: number, from: number, to: number): number {
    return (this.passed[envoy] as number[]).slice(from * 1_000, to * 1_000).reduce((all, one) => all + one, 0);
  }

  /** By how much all that passed exceeds rate x t in the worst stretch of time. */
  worstBurst(): number {
    const perMs = this.limit.amount / this.limit.windowSeconds / 1_000;
    let level = 0;
    let worst = 0;
    for (let ms = 0; ms < this.passedAsked.length; ms++) {
      level = Math.max(0, level - perMs) + (this.passedAsked[ms] as number);
      for (const passed of this.passed) level += passed[ms] as number;
      worst = Math.max(worst, level);
    }
    return worst;
  }
}
