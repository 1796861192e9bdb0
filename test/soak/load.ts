// Callers of a soak: they ask the services through their proxies, mix all kinds of calls, and note what each answer was, when
// it came, and what was granted.

import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../support/fault-proxy.ts";
import { type AskedRequest, askOnce, openClient } from "../support/test-app.ts";
import { SOAK_RULES, type SoakRule } from "./rules.ts";

/** How long callers wait for an answer. */
export const CALL_DEADLINE_MS = 1_000;
/** What an answer may be later than that. */
export const LATE_MS_MAX = 5;

const CALLERS_PER_PROCESS = 6;
/** Callers rest between calls, 0 to this long. */
const REST_MS_MAX = 40;
const GRPC_DEADLINE_EXCEEDED = 4;

const CLIENT_OPTIONS = {
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 500,
  "grpc.keepalive_time_ms": 1_000,
  "grpc.keepalive_timeout_ms": 1_000,
  "grpc.enable_retries": 0,
};

/** How a call ended. */
export type Ending = "answered" | "degraded" | "failed" | "no answer in time";

/** What is noted of each call. */
export interface CallNote {
  readonly process: number;
  readonly ending: Ending;
  readonly startMs: number;
  readonly endMs: number;
  /** Of a call that failed: why. */
  readonly why: string;
}

/** What one process's callers have seen since it was started. */
export class Life {
  /** Answers that said they were given without the store. */
  degraded = 0;
  /** Calls that got no answer: what became of them only the service knows. */
  unanswered = 0;
  calls = 0;
  /** What the process had counted when this began. */
  readonly countedBefore: number;

  constructor(countedBefore: number) {
    this.countedBefore = countedBefore;
  }
}

/** Calls of the callers of one process. */
export class Callers {
  readonly #client: ReturnType<typeof openClient>;
  readonly #process: number;
  readonly #random: Random;
  readonly #suffix: string;
  readonly #onCall: (note: CallNote) => void;
  readonly #granted: Map<string, number>;
  readonly #running: Promise<void>[];
  #isOn = true;
  #isPaused = false;
  #underWay = 0;
  life = new Life(0);

  /** `suffix` sets the buckets of this process's callers apart from others'. */
  constructor(options: {
    readonly port: number;
    readonly process: number;
    readonly random: Random;
    readonly suffix: string;
    readonly granted: Map<string, number>;
    readonly onCall: (note: CallNote) => void;
  }) {
    this.#client = openClient(`127.0.0.1:${options.port}`, CLIENT_OPTIONS);
    this.#process = options.process;
    this.#random = options.random;
    this.#suffix = options.suffix;
    this.#granted = options.granted;
    this.#onCall = options.onCall;
    this.#running = Array.from({ length: CALLERS_PER_PROCESS }, () => this.#run());
  }

  /** Stops asking; resolves once nothing is under way. */
  async pause(): Promise<void> {
    this.#isPaused = true;
    while (this.#underWay > 0) await sleep(5);
  }

  resume(): void {
    this.#isPaused = false;
  }

  async stop(): Promise<void> {
    this.#isOn = false;
    await Promise.all(this.#running);
    this.#client.close();
  }

  async #run(): Promise<void> {
    while (this.#isOn) {
      await sleep(this.#random() * REST_MS_MAX);
      if (this.#isPaused) continue;
      this.#underWay++;
      await this.#call();
      this.#underWay--;
    }
  }

  async #call(): Promise<void> {
    const { request, onGranted } = this.#choose();
    const { life } = this;
    const startMs = performance.now();
    let ending: Ending = "answered";
    let why = "";
    try {
      const reply = await askOnce(this.#client, request, CALL_DEADLINE_MS);
      const isDegraded = JSON.stringify(reply.dynamic_metadata ?? {}).includes('"degraded"');
      if (isDegraded) ending = "degraded";
      if (reply.overall_code === "OK") onGranted(isDegraded);
    } catch (error) {
      const { code, details } = error as { code?: number; details?: string };
      ending = code === GRPC_DEADLINE_EXCEEDED ? "no answer in time" : "failed";
      why = `${code} ${details ?? String(error)}`;
    }
    life.calls++;
    if (ending === "degraded") life.degraded++;
    if (ending === "failed" || ending === "no answer in time") life.unanswered++;
    this.#onCall({ process: this.#process, ending, startMs, endMs: performance.now(), why });
  }

  #choose(): { request: AskedRequest; onGranted: (isDegraded: boolean) => void } {
    const roll = this.#random();
    if (roll < 0.06)
      return { request: this.#ask("bucket", 0, { hits_addend: { value: 0 } }), onGranted: () => undefined };
    if (roll < 0.1) return { request: this.#ask("report", 0, {}), onGranted: () => undefined };
    if (roll < 0.13) {
      return { request: this.#ask("refund", 0, { is_negative_hits: true }), onGranted: () => undefined };
    }
    if (roll < 0.16) return { request: this.#ask("refund", 0, {}), onGranted: () => undefined };
    const rule = pick(this.#random);
    const value = Math.floor(this.#random() * rule.values);
    const name = rule.isGlobal === true ? `${rule.key}${this.#suffix}` : `${rule.key} ${value}${this.#suffix}`;
    return {
      request: this.#ask(rule.key, value, {}),
      onGranted: (isDegraded) => {
        // Allowed without the store is what the rule's policy wanted; it stands on no bill but in the count of degraded answers.
        if (isDegraded && rule.key === "open") return;
        this.#granted.set(name, (this.#granted.get(name) ?? 0) + 1);
      },
    };
  }

  #ask(key: string, value: number, fields: object): AskedRequest {
    const domain = key === "shared" ? "shared" : "soak";
    return { domain, descriptors: [{ entries: [{ key, value: `${value}${this.#suffix}` }], ...fields }] };
  }
}

const WEIGHTS = SOAK_RULES.reduce((sum, { weight }) => sum + weight, 0);

function pick(random: Random): SoakRule {
  let left = random() * WEIGHTS;
  for (const rule of SOAK_RULES) {
    left -= rule.weight;
    if (left < 0) return rule;
  }
  return SOAK_RULES[0] as SoakRule;
}

/** How late this process's own timers are: no answer is noticed sooner than the event loop that reads it turns. */
export class Lateness {
  readonly #timer: NodeJS.Timeout;
  readonly #late: { readonly atMs: number; readonly byMs: number }[] = [];
  #lastMs = performance.now();

  constructor() {
    this.#timer = setInterval(() => {
      const nowMs = performance.now();
      const byMs = nowMs - this.#lastMs - LATENESS_TICK_MS;
      this.#lastMs = nowMs;
      if (byMs > 1) this.#late.push({ atMs: nowMs, byMs });
    }, LATENESS_TICK_MS);
  }

  /** All lateness between two times of performance.now(), together. */
  between(startMs: number, endMs: number): number {
    let sum = 0;
    for (let i = this.#late.length - 1; i >= 0; i--) {
      const { atMs, byMs } = this.#late[i] ?? { atMs: 0, byMs: 0 };
      if (atMs < startMs) break;
      if (atMs - byMs <= endMs) sum += byMs;
    }
    return sum;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

const LATENESS_TICK_MS = 2;
