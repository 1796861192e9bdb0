// Calls of headgate.v1.Budgets: their bytes by proto/, the handlers without a transport, and a client over one.

import {
  type Client,
  credentials,
  Metadata,
  type MethodDefinition,
  makeClientConstructor,
  type ServiceDefinition,
  type ServiceError,
} from "@grpc/grpc-js";
import type { RequestError } from "../../src/base/errors.ts";
import { ReserveService, SettleService } from "../../src/grpc/rls/budgets.ts";
import type { CallServiceOptions } from "../../src/grpc/rls/service.ts";
import { BUDGETS_SERVICE } from "../../src/grpc/transport/load-proto.ts";
import type { UnaryHandler } from "../../src/grpc/unary.ts";
import { endWithTest } from "./ends.ts";
import type { LimiterRig } from "./limiter-rig.ts";
import { loadProto } from "./load-proto.ts";
import type { TestApp } from "./test-app.ts";

/** A budget of 100 tokens a day for each tenant, with holds, and a rule without. */
export const BUDGET_RULES = `
domain: edge
descriptors:
  - key: tenant
    rate_limit: { name: tokens, algorithm: fixed_window, requests_per_unit: 100, unit: day }
    hold: { id: request_id, estimate: max_tokens, default: 20, max: 60, ttl: 1h }
  - { key: plain, rate_limit: { requests_per_unit: 5, unit: day } }
`;

/** What the tenant has left of its budget, by ShouldRateLimit. */
export async function budgetLeft(app: TestApp, tenant = "a"): Promise<number | undefined> {
  const entries = [{ key: "tenant", value: tenant }];
  const reply = await app.ask({ domain: "edge", descriptors: [{ entries, hits_addend: { value: 0 } }] });
  return reply.statuses[0]?.limit_remaining;
}

/** What both calls say; `number` is the amount or what was used. */
export interface AskedHold {
  readonly domain?: string;
  readonly entries: Readonly<Record<string, string>>;
  readonly id: string;
  readonly number?: number;
}

interface Degraded {
  readonly policy: string;
  readonly failure: string;
}

/** A ReserveResponse in proto-loader's form, with numbers as numbers. */
export interface ReservedReply {
  readonly code: string;
  readonly remaining: number;
  /** Seconds. */
  readonly retryAfter: number | undefined;
  readonly rule: string;
  readonly reason: string;
  readonly reserved: number;
  readonly degraded: Degraded | null;
}

/** A SettleResponse likewise. */
export interface SettledReply {
  readonly found: string;
  readonly remaining: number;
  readonly degraded: Degraded | null;
}

type Method = MethodDefinition<object, object>;
const service = loadProto()[BUDGETS_SERVICE] as unknown as { readonly Reserve: Method; readonly Settle: Method };

export function reserveBytes({ domain = "edge", entries, id, number = 0 }: AskedHold): Buffer {
  return service.Reserve.requestSerialize({ domain, entries: entriesOf(entries), id, amount: number });
}

export function settleBytes({ domain = "edge", entries, id, number = 0 }: AskedHold): Buffer {
  return service.Settle.requestSerialize({ domain, entries: entriesOf(entries), id, used: number });
}

function entriesOf(entries: AskedHold["entries"]): object[] {
  return Object.entries(entries).map(([key, value]) => ({ key, value }));
}

export function readReserved(bytes: Uint8Array): ReservedReply {
  return reservedOf(service.Reserve.responseDeserialize(Buffer.from(bytes)) as ProtoReserved);
}

export function readSettled(bytes: Uint8Array): SettledReply {
  return settledOf(service.Settle.responseDeserialize(Buffer.from(bytes)) as ProtoSettled);
}

/** The bytes of a ReserveResponse in proto-loader's form. */
export function reservedBytes(answer: object): Buffer {
  return service.Reserve.responseSerialize(answer);
}

interface ProtoReserved extends Omit<ReservedReply, "remaining" | "reserved" | "retryAfter"> {
  readonly remaining: string;
  readonly reserved: string;
  readonly retry_after: { readonly seconds: string } | null;
}

interface ProtoSettled extends Omit<SettledReply, "remaining"> {
  readonly remaining: string;
}

function reservedOf({ retry_after: wait, ...reply }: ProtoReserved): ReservedReply {
  const retryAfter = wait === null ? undefined : Number(wait.seconds);
  return { ...reply, remaining: Number(reply.remaining), reserved: Number(reply.reserved), retryAfter };
}

function settledOf(reply: ProtoSettled): SettledReply {
  return { ...reply, remaining: Number(reply.remaining) };
}

/** The handlers on a rig's limiter. Calls that fail throw their status and text. */
export class BudgetsRig {
  readonly reserveHandler: UnaryHandler;
  readonly settleHandler: UnaryHandler;
  readonly requestErrors: string[] = [];

  constructor({ limiter }: LimiterRig, decisions?: CallServiceOptions["decisions"]) {
    const options = {
      limiter,
      onInternalError: (error: unknown) => {
        throw error;
      },
      onRequestError: ({ code }: RequestError) => this.requestErrors.push(code),
      decisions,
    };
    this.reserveHandler = new ReserveService(options);
    this.settleHandler = new SettleService(options);
  }

  reserve(asked: AskedHold): ReservedReply {
    return readReserved(answerAtOnce(this.reserveHandler, reserveBytes(asked)));
  }

  settle(asked: AskedHold): SettledReply {
    return readSettled(answerAtOnce(this.settleHandler, settleBytes(asked)));
  }
}

/** What the handler answers before it returns. Throws the status and text of a call that fails. */
export function answerAtOnce(handler: UnaryHandler, message: Buffer): Buffer {
  let answer: Buffer | undefined;
  let failure: Error | undefined;
  handler.handle(message, Number.POSITIVE_INFINITY, {
    ok: (bytes) => {
      answer = Buffer.from(bytes);
    },
    fail: (status, text) => {
      failure = new Error(`${status} ${text}`);
    },
  });
  if (failure !== undefined) throw failure;
  if (answer === undefined) throw new Error("expected an answer at once");
  return answer;
}

/** A caller over gRPC. Calls that fail reject with the ServiceError. */
export interface BudgetsCaller {
  reserve(asked: AskedHold, deadlineMs?: number): Promise<ReservedReply>;
  settle(asked: AskedHold, deadlineMs?: number): Promise<SettledReply>;
}

export function callBudgets(target: string): BudgetsCaller {
  const definition = service as unknown as ServiceDefinition;
  const client: Client = new (makeClientConstructor(definition, BUDGETS_SERVICE))(target, credentials.createInsecure());
  endWithTest(() => client.close());
  const send = (path: string, message: Buffer, deadlineMs: number) =>
    new Promise<Buffer>((resolve, reject) => {
      const same = (bytes: Buffer) => bytes;
      const options = { deadline: Date.now() + deadlineMs };
      const done = (error: ServiceError | null, answer?: Buffer) => {
        if (error !== null) reject(error);
        else resolve(answer as Buffer);
      };
      client.makeUnaryRequest(path, same, same, message, new Metadata(), options, done);
    });
  return {
    reserve: async (asked, deadlineMs = DEADLINE_MS) =>
      readReserved(await send(service.Reserve.path, reserveBytes(asked), deadlineMs)),
    settle: async (asked, deadlineMs = DEADLINE_MS) =>
      readSettled(await send(service.Settle.path, settleBytes(asked), deadlineMs)),
  };
}

const DEADLINE_MS = 10_000;
