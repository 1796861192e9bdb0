// What a node of a cluster refuses in passing (CLUSTERDOWN, TRYAGAIN) is sent again. Over generated moods of a node, latencies
// and deadlines: every call is answered once and in time, is paid at most once, and costs a breaker one failure at most.
// The test stands where the node would.

import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Mode, TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { BREAKER_DEFAULTS, type BreakerOptions } from "../../src/stores/batching/breaker.ts";
import { completeOptions } from "../../src/stores/batching/options.ts";
import * as connect from "../../src/stores/redis/connect.ts";
import { packNumbers, unpackNumbers } from "../../src/stores/redis/redis-batch.ts";
import { fixedServer } from "../../src/stores/redis/redis-link.ts";
import { RedisNode } from "../../src/stores/redis/redis-node.ts";
import { SILENT_STORE_OBSERVER } from "../../src/stores/store-observer.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";

vi.mock("../../src/stores/redis/connect.ts", { spy: true });

const TARGET = {
  address: { kind: "unix", path: "/nowhere" },
  ...{ database: 0, login: undefined, loginFile: undefined, tls: undefined, connectTimeoutMs: 1_000 },
} as const;
const LIMIT = makeLimit({ amount: 1_000_000, burst: 1_000_000 });
const DOWN = "CLUSTERDOWN The cluster is down";
/** A call goes out once, and ten times more (CLUSTER_DOWNS_MAX of redis-node.ts), 3 ms apart. */
const SENDS_MAX = 11;
const SCRIPT = { text: "text", sha: "sha" };

type Mood = "runs" | "down" | "try again" | "no script" | "silent";

interface Asked {
  readonly key: string;
  readonly group: TakeGroup;
  readonly deadlineUs: number;
  answers: number;
  answeredUs: number;
}

class ReplyError extends Error {
  override readonly name = "ReplyError";
}

/** A node and the way of calls to it. */
class Rig {
  readonly clock = new ManualClock();
  mood: Mood = "runs";
  latencyMs = 0;
  readonly asked: Asked[] = [];
  readonly failures: string[] = [];
  readonly breakerStates: string[] = [];
  /** By key: how often its payment was run, less how often it was given back. */
  readonly paid = new Map<string, number>();
  readonly sends = new Map<string, number>();
  keptPaid = 0;
  readonly intake: RedisNode;

  constructor(breaker: Partial<BreakerOptions> = {}) {
    const { clock } = this;
    const observer = {
      ...SILENT_STORE_OBSERVER,
      failed: ({ code }: { code: string }) => this.failures.push(code),
      breakerChanged: (_: string, state: string) => this.breakerStates.push(state),
      keptPaid: (count: number) => {
        this.keptPaid += count;
      },
    };
    const options = {
      clock,
      deadlineMs: 15,
      patienceMs: 1_000,
      observer,
      breaker: { ...BREAKER_DEFAULTS, ...breaker },
    };
    this.intake = new RedisNode({
      ...completeOptions(options),
      finder: fixedServer(TARGET),
      scripts: { takes: SCRIPT, holds: SCRIPT, counters: SCRIPT },
      selfTestKeys: () => ["own"],
      jitterSecondsMax: 0,
      redirect: (_, message) => (message.startsWith("TRYAGAIN") ? "later" : "refused"),
    });
    vi.mocked(connect.openConnection).mockResolvedValue({
      command: async () => [Math.floor(clock.nowUs() / 1_000_000), clock.nowUs() % 1_000_000], // TIME
      commandOfBytes: async (name, args) => await this.#serve(name, args),
      together: (send) => send(),
      subscribe: async () => undefined,
      drop: () => undefined,
    });
    this.intake.start();
  }

  /** Asks for one hit on a bucket of its own; the caller waits `deadlineMs`. */
  ask(deadlineMs: number): void {
    const group = new TakeGroup();
    const key = `k${this.asked.length}`;
    const take = group.add(LIMIT);
    take.bucketKey = key;
    take.cost = 1;
    group.deadlineUs = this.clock.nowUs() + deadlineMs * 1_000;
    const one: Asked = { key, group, deadlineUs: group.deadlineUs, answers: 0, answeredUs: 0 };
    this.asked.push(one);
    const settled = () => {
      one.answers++;
      one.answeredUs = this.clock.nowUs();
    };
    if (this.intake.take(group, { answered: settled })) settled();
  }

  async pass(ms: number): Promise<void> {
    for (let i = 0; i < ms; i++) {
      this.clock.advanceMs(1);
      await vi.advanceTimersByTimeAsync(1);
    }
  }

  async #serve(name: string, args: readonly string[]): Promise<unknown> {
    const keys = args.slice(2, 2 + Number(args[1])); // behind the script and their number;
    if (name === "evalsha") for (const key of keys) this.sends.set(key, (this.sends.get(key) ?? 0) + 1);
    await this.#travel();
    const { mood } = this;
    const reply = mood === "runs" || (mood === "no script" && name === "eval") ? this.#run(keys, args) : undefined;
    await this.#travel();
    if (reply !== undefined) return reply;
    if (mood === "down") throw new ReplyError(DOWN);
    if (mood === "try again") throw new ReplyError("TRYAGAIN Multiple keys request during rehashing of slot");
    if (mood === "no script") throw new ReplyError("NOSCRIPT No matching script");
    return await new Promise(() => undefined);
  }

  async #travel(): Promise<void> {
    if (this.latencyMs > 0) await new Promise((resolve) => setTimeout(resolve, this.latencyMs));
  }

  #run(keys: readonly string[], args: readonly string[]): Buffer {
    const groups = unpackNumbers(Buffer.from(args.at(-1) ?? "", "latin1")) ?? [];
    const nowUs = this.clock.nowUs();
    const pay = (place: number, cost: number) => {
      const key = keys[place - 1] ?? "";
      if (!key.startsWith("own")) this.paid.set(key, (this.paid.get(key) ?? 0) + cost);
    };
    const reply = [nowUs, 0];
    for (let at = 0; at < groups.length; at += 9) {
      if (groups[at + 7] === Mode.giveBack) {
        pay(groups[at + 3] ?? 0, -(groups[at + 8] ?? 0));
        reply.push(Verdict.allowed, 1, 9, 0, 1, 0, 0);
        continue;
      }
      const latestUs = groups[at + 1] ?? 0;
      if (latestUs > 0 && nowUs > latestUs) {
        reply.push(3);
        continue;
      }
      pay(groups[at + 3] ?? 0, groups[at + 8] ?? 0);
      reply.push(Verdict.allowed, 1 + 4, 9, 0, 1, nowUs, 0);
    }
    return Buffer.from(packNumbers(reply), "latin1");
  }
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const step = fc.record({
  mood: fc.constantFrom<Mood>("runs", "down", "down", "try again", "no script", "silent"),
  latencyMs: fc.nat({ max: 4 }),
  deadlines: fc.array(fc.constantFrom(1, 5, 16, 40, 200, 3_000), { maxLength: 4 }),
  ms: fc.nat({ max: 50 }),
});

describe("calls that a node refuses in passing", () => {
  // Promise(redis): A call that a Cluster node refuses for a moment is sent again, answered once and in time, and paid at most once.
  test("are answered once and in time, and paid once if they passed, never if not", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
        const rig = new Rig({ outcomesMin: 1e9 });
        await rig.pass(1);
        for (const { mood, latencyMs, deadlines, ms } of steps) {
          Object.assign(rig, { mood, latencyMs });
          for (const deadlineMs of deadlines) rig.ask(deadlineMs);
          await rig.pass(ms);
        }
        rig.mood = "runs";
        await rig.pass(1_100);
        // What was lost in silence ends like this, as unknown.
        rig.intake.answers.loseSent(rig.intake.unreachable());
        rig.ask(100);
        await rig.pass(10);
        expect(rig.asked.at(-1)?.group.verdict).toBe(Verdict.allowed);
        let notGivenBack = 0;
        for (const { key, group, deadlineUs, answers, answeredUs } of rig.asked) {
          expect(answers).toBe(1);
          expect(answeredUs).toBeLessThanOrEqual(deadlineUs + 2_000);
          const paid = rig.paid.get(key) ?? 0;
          if (group.verdict === Verdict.allowed) expect([key, paid]).toEqual([key, 1]);
          else notGivenBack += paid;
        }
        // A give-back that was itself lost in silence stays undone, for it may have been run; it is counted.
        expect(notGivenBack).toBe(rig.keptPaid);
        rig.intake.close();
      }),
      { numRuns: runs(150) },
    );
  });

  // Promise(redis): A Cluster that stays down fails each call after some 30 ms, as one failure for the breaker.
  test("cost the breaker one failure each, however often they were sent; it closes when the cluster is up again", async () => {
    const rig = new Rig({ outcomesMin: 20 });
    await rig.pass(1);
    rig.mood = "down";
    for (let i = 0; i < 19; i++) rig.ask(3_000);
    await rig.pass(29);
    expect(rig.failures).toEqual([]);
    await rig.pass(11);
    expect([rig.failures, rig.breakerStates]).toEqual([Array(19).fill("STORE_UNREACHABLE"), []]);
    expect([rig.sends.get("k0"), rig.paid.size]).toEqual([SENDS_MAX, 0]);
    rig.ask(3_000);
    await rig.pass(40);
    expect(rig.breakerStates).toEqual(["open"]);
    // Open, it has a take of its own ask, and that as often as any.
    await rig.pass(290);
    expect(rig.breakerStates).toEqual(["open", "probing", "open"]);
    expect(rig.sends.get("own:probe")).toBe(SENDS_MAX);
    rig.mood = "runs";
    await rig.pass(260);
    expect(rig.breakerStates.slice(3)).toEqual(["probing", "closed"]);
    rig.ask(3_000);
    await rig.pass(5);
    expect(rig.asked.at(-1)?.group.verdict).toBe(Verdict.allowed);
    rig.intake.close();
  });

  test("pass when the cluster is up again within the bound, and the breaker has nothing to count", async () => {
    const rig = new Rig({ outcomesMin: 1 });
    await rig.pass(1);
    rig.mood = "down";
    for (let i = 0; i < 30; i++) rig.ask(3_000);
    await rig.pass(25);
    rig.mood = "runs";
    await rig.pass(5);
    expect(rig.asked.map(({ group }) => group.verdict)).toEqual(Array(30).fill(Verdict.allowed));
    expect([rig.failures, rig.breakerStates]).toEqual([[], []]);
    rig.intake.close();
  });
});
