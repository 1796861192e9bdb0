// Calls of a process through its memory of refusals and the way to a server: batches leave, are settled, answered, lost; calls end before their
// answer, and give back; another process pays and refunds. Timers are events. A call is answered once. In the end the server has been paid for
// what callers were granted, and for nothing else that it was told of; a refusal from memory was right within a second.

import { vi } from "vitest";
import { Algorithm, type Limit } from "../../src/engine/domain/limit.ts";
import type { Store } from "../../src/engine/domain/store.ts";
import type { TakeGroup } from "../../src/engine/domain/take.ts";
import type { Batch, BatchedGroup } from "../../src/stores/batching/batch.ts";
import type { Intake } from "../../src/stores/batching/intake.ts";
import type { CompleteOptions } from "../../src/stores/batching/options.ts";
import { makeLimit } from "../support/builders.ts";
import type { Load } from "./code.ts";
import type { World } from "./explorer.ts";
import { OneStore, type StoreCode } from "./one-store.ts";
import { stateText } from "./state-text.ts";

type Code = StoreCode &
  typeof import("../../src/base/errors.ts") &
  typeof import("../../src/stores/batching/batch.ts") &
  typeof import("../../src/stores/batching/intake.ts") &
  typeof import("../../src/stores/batching/options.ts") &
  typeof import("../../src/stores/batching/reply.ts") &
  typeof import("../../src/stores/denials/denial-memory.ts");

export interface CallsScope {
  readonly burst: number;
  readonly calls: number;
  /** What calls cost. */
  readonly costs: readonly number[];
  /** How often a connection is lost, or the server refuses a batch. */
  readonly faults: number;
  /** How often another process pays or refunds. */
  readonly others: number;
  /** What others have paid in the beginning. */
  readonly used: number;
  /** True: a call of 1 has been granted in the beginning. */
  readonly isBusy: boolean;
  readonly deadlineMs: number;
}

const KEY = "{bucket";
const TICK_US = 500_000;
const TICKS_MAX = 3;
const SECOND_US = 1_000_000;
const START_US = Date.UTC(2026, 0, 1) * 1_000;
/** Turns after which nothing may be left to do. */
const TURNS_MAX = 40;

export async function callsWorlds(load: Load, scope: CallsScope): Promise<() => World> {
  const code = {
    ...(await OneStore.load(load)),
    ...(await load<object>("base/errors.ts")),
    ...(await load<object>("stores/batching/batch.ts")),
    ...(await load<object>("stores/batching/intake.ts")),
    ...(await load<object>("stores/batching/options.ts")),
    ...(await load<object>("stores/batching/reply.ts")),
    ...(await load<object>("stores/denials/denial-memory.ts")),
  } as Code;
  const limit = makeLimit({ algorithm: Algorithm.fixedWindow, amount: scope.burst, windowSeconds: 86_400 });
  const store = new OneStore(code);
  const parts = partsOf(code);
  return () => new CallsWorld(code, parts, scope, limit, store);
}

/** A batch as it was sent: each group's numbers, and until when it may pay. */
interface Sent {
  readonly name: string;
  readonly batch: Batch;
  readonly groups: readonly { readonly group: TakeGroup; readonly isGiveBack: boolean; readonly latestUs: number }[];
  reply: readonly number[] | undefined;
}

interface Call {
  readonly name: string;
  readonly cost: number;
  readonly group: TakeGroup;
  answers: number;
  verdict: number;
  isOver: boolean;
}

/** Timers of the code that is explored: nothing runs by itself. */
class Timers {
  #nowUs = START_US;
  readonly #timers = new Map<number, { readonly atUs: number; readonly run: () => void }>();
  #immediates: (() => void)[] = [];
  #number = 0;

  get nowUs(): number {
    return this.#nowUs;
  }

  add(run: () => void, ms: number): number {
    this.#timers.set(++this.#number, { atUs: this.#nowUs + ms * 1_000, run });
    return this.#number;
  }

  remove(number: number): void {
    this.#timers.delete(number);
  }

  atTurnEnd(run: () => void): void {
    this.#immediates.push(run);
  }

  endTurn(): void {
    while (this.#immediates.length > 0) for (const run of this.#immediates.splice(0)) run();
  }

  pass(us: number): void {
    this.#nowUs += us;
    for (const [number, { atUs, run }] of [...this.#timers]) {
      if (atUs > this.#nowUs || !this.#timers.delete(number)) continue;
      run();
    }
    this.endTurn();
  }

  get left(): readonly number[] {
    return [...this.#timers.values()].map(({ atUs }) => atUs);
  }
}

/** Those of the world that goes on at present. */
let timers = new Timers();

/** Has the explored code use them until `restore`. */
export function stubTimers(): { restore(): void } {
  const handle = (number: number) => Object.assign(Object(number), { unref: () => handle(number) });
  const spies = [
    vi
      .spyOn(globalThis, "setTimeout")
      .mockImplementation(((run: (...all: unknown[]) => void, ms = 0, ...all: unknown[]) =>
        handle(timers.add(() => run(...all), ms))) as never),
    vi.spyOn(globalThis, "clearTimeout").mockImplementation((timer) => timers.remove(Number(timer))),
    vi
      .spyOn(globalThis, "setImmediate")
      .mockImplementation(((run: (...all: unknown[]) => void, ...all: unknown[]) =>
        timers.atTurnEnd(() => run(...all))) as never),
  ];
  return { restore: () => spies.forEach((spy) => void spy.mockRestore()) };
}

/** The classes that need those of the code. */
function partsOf(code: Code) {
  class WholeBatch extends code.Batch {
    hasRoomFor(): boolean {
      return true;
    }
  }
  class OneIntake extends code.Intake<Batch> {
    isUp = true;
    sentNow: (batch: Batch) => void = () => undefined;

    constructor(options: CompleteOptions) {
      super(options, "The server", true);
    }
    protected get down(): string | undefined {
      return this.isUp ? undefined : "The server is away";
    }
    protected newBatch(queue: number): Batch {
      return new WholeBatch(queue);
    }
    protected send(): void {
      for (let batch = this.next(); batch !== undefined; batch = this.next()) this.sentNow(batch);
    }
    onSilence(batch: Batch): void {
      this.answers.lose(batch, new code.StoreError("STORE_TIMEOUT", "silent"));
    }
    protected probeBucket(): undefined {
      return undefined;
    }
    protected override underWayMax(): number {
      return 1;
    }
  }
  return { OneIntake };
}

class CallsWorld implements World {
  readonly #code: Code;
  readonly #scope: CallsScope;
  readonly #limit: Limit;
  readonly #server: ReturnType<OneStore["begin"]>;
  readonly #intake: Intake<Batch> & { isUp: boolean };
  readonly #memory: Store & { readonly $buckets?: unknown };
  readonly #timers = new Timers();
  readonly #calls: Call[] = [];
  #messages: Sent[] = [];
  #callsLeft = 0;
  #faultsLeft: number;
  #othersLeft: number;
  #ticksLeft = TICKS_MAX;
  #batches = 0;
  /** Of others, and of calls whose payments nobody knows of any more. */
  #paidByOthers: number;
  #unknown = 0;
  /** Since when the bucket has had that much room. */
  readonly #room: { atUs: number; left: number }[];
  /** When this process gave something back last, and what is on its way. */
  #undoneUs = 0;
  #givenBack = 0;
  #wrong: string | undefined;

  constructor(code: Code, { OneIntake }: ReturnType<typeof partsOf>, scope: CallsScope, limit: Limit, store: OneStore) {
    this.#code = code;
    this.#scope = scope;
    this.#limit = limit;
    this.#server = store.begin();
    this.#faultsLeft = scope.faults;
    this.#othersLeft = scope.others;
    timers = this.#timers;
    const clock = { nowUs: () => this.#timers.nowUs };
    let memory: InstanceType<Code["DenialMemory"]> | undefined;
    const options = code.completeOptions({
      keyPrefix: "",
      deadlineMs: scope.deadlineMs,
      silenceMsMax: 2_000,
      clock,
      onUndone: (take) => memory?.forgetRefusal(take),
    });
    const intake = new OneIntake(options);
    intake.sentNow = (batch) => this.#send(batch);
    this.#intake = intake;
    // As a connection has told it.
    intake.serverTime.observe({ sentUs: START_US, serverUs: START_US, receivedUs: START_US });
    const way: Store = {
      take: (group, then) => intake.take(group, then),
      giveBack: (group) => intake.giveBack(group),
      close: async () => undefined,
    };
    memory = new code.DenialMemory(way, { clock, entriesMax: 10 });
    this.#memory = memory as Store;
    this.#paidByOthers = 0;
    this.#room = [{ atUs: START_US, left: scope.burst }];
    if (scope.used > 0) this.#payElsewhere(scope.used);
    if (scope.isBusy) this.#makeBusy();
    this.#callsLeft = scope.calls;
  }

  choices(): readonly string[] {
    const choices: string[] = [];
    if (this.#callsLeft > 0) choices.push(...this.#scope.costs.map((cost) => `a call of ${cost}`));
    for (const { name, answers, verdict } of this.#calls)
      if (answers > 0 && verdict === this.#code.Verdict.allowed) choices.push(`${name} is given back`);
    // A connection keeps the order.
    const asked = this.#messages.find(({ reply }) => reply === undefined);
    if (asked !== undefined) choices.push(`${asked.name} reaches the server`);
    if (asked !== undefined && this.#faultsLeft > 0) choices.push(`${asked.name} is not run`);
    const answered = this.#messages.find(({ reply }) => reply !== undefined);
    if (answered !== undefined) choices.push(`${answered.name} is answered`);
    if (this.#faultsLeft > 0 && this.#messages.length > 0) choices.push("the connection is lost");
    if (this.#othersLeft > 0) choices.push("another process pays 1");
    if (this.#othersLeft > 0 && this.#paidByOthers > 0) choices.push("another process gives back 1");
    if (this.#ticksLeft > 0) choices.push("half a second passes");
    return choices;
  }

  choose(choice: string): void {
    timers = this.#timers;
    const sent = this.#messages.find(({ name }) => choice.startsWith(`${name} `));
    if (choice.startsWith("a call of")) this.#call(Number(choice.at(-1)));
    else if (choice.startsWith("half")) {
      this.#ticksLeft--;
      this.#timers.pass(TICK_US);
    } else if (choice.startsWith("the connection")) {
      this.#faultsLeft--;
      this.#lose();
    } else if (choice.startsWith("another")) {
      this.#othersLeft--;
      this.#payElsewhere(choice.includes("pays") ? 1 : -1);
    } else if (choice.endsWith("not run")) {
      this.#faultsLeft--;
      this.#messages = this.#messages.filter((other) => other !== sent);
      if (sent !== undefined)
        this.#intake.answers.fail(sent.batch, new this.#code.StoreError("STORE_COMMAND", "not run"));
    } else if (sent !== undefined) this.#goOn(sent);
    else this.#giveBack(this.#calls.find(({ name }) => choice.startsWith(`${name} `)) as Call);
    this.#timers.endTurn();
  }

  broken(): string | undefined {
    timers = this.#timers;
    for (let turn = 0; turn < TURNS_MAX && this.#wrong === undefined; turn++) {
      while (this.#messages.length > 0) this.#goOn(this.#messages[0] as Sent);
      if (
        this.#calls.every(({ answers }) => answers > 0) &&
        this.#intake.answers.isIdle &&
        this.#intake.giveBacks.isDone
      )
        break;
      this.#timers.pass(TICK_US);
    }
    if (this.#wrong !== undefined) return this.#wrong;
    const unanswered = this.#calls.find(({ answers }) => answers === 0);
    if (unanswered !== undefined) return `${unanswered.name} is never answered`;
    if (!this.#intake.answers.isIdle || !this.#intake.giveBacks.isDone) return "something is never given back";
    const granted = this.#calls.reduce((sum, call) => sum + (isGranted(call, this.#code) ? call.cost : 0), 0);
    const used = this.#server.used(KEY, this.#limit, this.#timers.nowUs);
    const least = granted + this.#paidByOthers;
    if (used < least) return `${least} were granted, and ${used} are paid`;
    if (used > least + this.#unknown) return `${least} were granted, and ${used} stay paid`;
    return undefined;
  }

  fingerprint(): string {
    const relative = (number: number) => (number > START_US / 2 ? number - this.#timers.nowUs : number);
    const intake = this.#intake as unknown as {
      readonly answers: { readonly $open: ReadonlySet<Batch>; readonly $takes: number };
      readonly giveBacks: { readonly $waiting: readonly { readonly cost: number }[]; readonly $weight: number };
      readonly serverTime: object;
      readonly $breaker: object;
    };
    const batchOf = ({ state, waiting, groups, redirections }: Batch) => [
      state,
      waiting,
      redirections,
      groups.map(groupText),
    ];
    const memory = this.#memory as unknown as { $buckets: object; $latestRefusalUs: number; $sequence: number };
    const { $buckets, $latestRefusalUs, $sequence } = memory;
    return stateText(
      [
        [...intake.answers.$open].map(batchOf),
        this.#messages.map(({ batch, reply, groups }) => [
          batchOf(batch),
          reply,
          groups.map(({ latestUs }) => latestUs),
        ]),
        [
          intake.answers.$takes,
          intake.giveBacks.$waiting.map(({ cost }) => cost),
          intake.giveBacks.$weight,
          intake.serverTime,
        ],
        [$buckets, $latestRefusalUs, $sequence],
        this.#calls.map(({ cost, answers, verdict, group }) => [cost, answers, verdict, group.takes[0]?.paidAtUs]),
        [this.#callsLeft, this.#faultsLeft, this.#othersLeft, this.#ticksLeft, this.#paidByOthers, this.#unknown],
        [
          this.#undoneUs,
          this.#room.filter(({ atUs }, i) => i === this.#room.length - 1 || atUs >= this.#timers.nowUs - SECOND_US),
        ],
        [this.#timers.left, this.#server.kept()],
      ],
      relative,
    );
  }

  #makeBusy(): void {
    this.#call(1);
    this.#timers.endTurn();
    while (this.#messages.length > 0) this.#goOn(this.#messages[0] as Sent);
  }

  #call(cost: number): void {
    this.#callsLeft--;
    const group = new this.#code.TakeGroup();
    const { Mode } = this.#code;
    Object.assign(group.add(this.#limit), { bucketKey: KEY, keyHash: 1, descriptor: 0, kind: 0, mode: Mode.pay, cost });
    const call: Call = { name: `call ${this.#calls.length + 1}`, cost, group, answers: 0, verdict: 0, isOver: false };
    this.#calls.push(call);
    const answered = () => this.#onAnswer(call);
    if (this.#memory.take(group, { answered })) answered();
  }

  #onAnswer(call: Call): void {
    const { Source, Verdict } = this.#code;
    call.verdict = call.group.verdict;
    if (++call.answers > 1) this.#wrong = `${call.name} is answered twice`;
    if (call.group.source !== Source.denialMemory) return;
    if (call.verdict !== Verdict.refused) this.#wrong = `${call.name} was granted from memory`;
    const sinceUs = Math.max(this.#undoneUs, this.#timers.nowUs - SECOND_US);
    // What was so until after that time, and what came later.
    const lately = this.#room.filter((_, i) => (this.#room[i + 1]?.atUs ?? Number.POSITIVE_INFINITY) > sinceUs);
    if (!lately.some(({ left }) => left < call.cost))
      this.#wrong = `${call.name} was refused from memory, and there was room for a second, or since this process gave something back`;
  }

  #giveBack(call: Call): void {
    this.#undoneUs = this.#timers.nowUs;
    call.verdict = this.#code.Verdict.refused;
    this.#givenBack += call.cost;
    this.#noteRoom();
    this.#memory.giveBack(call.group);
  }

  #payElsewhere(cost: number): void {
    const { Mode, TakeGroup } = this.#code;
    const group = new TakeGroup();
    const mode = cost > 0 ? Mode.pay : Mode.refund;
    const take = Object.assign(group.add(this.#limit), { bucketKey: KEY, keyHash: 1, mode, cost: Math.abs(cost) });
    this.#server.take(group, this.#timers.nowUs);
    if (mode === Mode.refund || take.paid) this.#paidByOthers += cost;
    this.#noteRoom();
  }

  #noteRoom(): void {
    // What is on its way comes before whatever is asked later.
    const left = this.#scope.burst - this.#server.used(KEY, this.#limit, this.#timers.nowUs) + this.#givenBack;
    this.#room.push({ atUs: this.#timers.nowUs, left });
  }

  #send(batch: Batch): void {
    const groups = batch.groups.map((batched) => ({
      group: this.#asked(batch, batched),
      isGiveBack: batched.isGiveBack,
      latestUs: this.#intake.answers.latestOf(batched),
    }));
    this.#messages.push({ name: `batch ${++this.#batches}`, batch, groups, reply: undefined });
  }

  /** The group that the batch's numbers say. */
  #asked(batch: Batch, batched: BatchedGroup): TakeGroup {
    const { numbers } = batch as unknown as { readonly numbers: readonly number[] };
    const { Mode, TakeGroup } = this.#code;
    const group = new TakeGroup();
    for (let i = 0; i < batched.size; i++) {
      const at = batched.at + this.#code.HEAD_NUMBERS + i * this.#code.TAKE_NUMBERS;
      const [descriptor = 0, kind, mode, cost] = numbers.slice(at + 2, at + this.#code.TAKE_NUMBERS);
      const isGiveBack = mode === Mode.giveBack;
      const place = isGiveBack ? { paid: true, paidAtUs: descriptor } : { descriptor };
      Object.assign(group.add(this.#limit), { bucketKey: KEY, keyHash: 1, kind, mode, cost, ...place });
    }
    return group;
  }

  /** What is on its way goes on: to the server, or with its reply to the process. */
  #goOn(sent: Sent): void {
    if (sent.reply === undefined) {
      sent.reply = this.#settle(sent);
      return;
    }
    this.#messages = this.#messages.filter((other) => other !== sent);
    const reader = this.#code.isReplyTo(sent.batch, sent.reply) ? new this.#code.ReplyReader(sent.reply) : undefined;
    if (reader === undefined) this.#wrong = "the reply can't be read";
    this.#intake.onReply(sent.batch, reader, { name: "", reconnect: () => undefined });
    this.#timers.endTurn();
  }

  #settle({ groups }: Sent): readonly number[] {
    const { Mode, PAID, TOO_LATE } = this.#code;
    const { nowUs } = this.#timers;
    const reply = [nowUs, 0];
    for (const { group, isGiveBack, latestUs } of groups) {
      const [take] = group.takes;
      if (latestUs !== 0 && nowUs > latestUs) {
        reply.push(TOO_LATE);
        continue;
      }
      if (take !== undefined && isGiveBack) {
        take.mode = Mode.pay;
        this.#server.giveBack(group, nowUs);
        this.#givenBack = Math.max(0, this.#givenBack - take.cost);
        reply.push(1, 1, 0, 0, 0, 0, 0);
      } else if (take !== undefined) {
        this.#server.take(group, nowUs);
        const { outcome, paid, remaining, waitUs, resetUs, paidAtUs, cappedHits } = take;
        reply.push(group.verdict, outcome + (paid ? PAID : 0), remaining, waitUs, resetUs, paidAtUs, cappedHits);
      }
      this.#noteRoom();
    }
    return reply;
  }

  /** What was on its way is gone; the server may have settled it. */
  #lose(): void {
    for (const { groups, reply } of this.#messages) {
      for (const { group, isGiveBack } of groups) {
        const { cost = 0, paid = false } = group.takes[0] ?? {};
        if (isGiveBack ? reply === undefined : reply !== undefined && paid) this.#unknown += cost;
      }
    }
    this.#messages = [];
    this.#intake.answers.loseSent(new this.#code.StoreError("STORE_UNREACHABLE", "the connection is gone"));
  }
}

const groupText = ({ group, generation, isGiveBack, answerByUs, state }: BatchedGroup) => [
  group.takes[0]?.cost,
  group.generation - generation,
  isGiveBack,
  answerByUs,
  state,
];

function isGranted({ verdict }: Call, { Verdict }: Code): boolean {
  return verdict === Verdict.allowed;
}
