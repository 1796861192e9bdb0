// Callers with a connection each, as Envoys have: they ask about one descriptor after another and come back when their
// connection ends.

import * as grpc from "@grpc/grpc-js";
import { SHOULD_RATE_LIMIT_PATH } from "../../src/grpc/transport/load-proto.ts";
import { endWithTest } from "./ends.ts";
import { callRaw, type RawOutcome } from "./grpc-test-server.ts";
import { loadProto } from "./load-proto.ts";

const service = loadProto()["envoy.service.ratelimit.v3.RateLimitService"] as grpc.ServiceDefinition;
const { requestSerialize } = service.ShouldRateLimit as grpc.MethodDefinition<object, object>;

const OVER_LIMIT = 2;

/** The bytes of a request about one entry. */
export function requestAbout(key: string, value: string, domain = "edge"): Buffer {
  return requestSerialize({ domain, descriptors: [{ entries: [{ key, value }] }] });
}

/** A caller with a connection of its own, which is made at its first call. */
export class Caller {
  readonly #client: grpc.Client;

  constructor(target: string, secure: grpc.ChannelCredentials = grpc.credentials.createInsecure()) {
    this.#client = new grpc.Client(target, secure, {
      "grpc.use_local_subchannel_pool": 1,
      "grpc.initial_reconnect_backoff_ms": 50,
      "grpc.max_reconnect_backoff_ms": 200,
    });
    endWithTest(() => this.close());
  }

  ask(request: Buffer, deadlineMs = 10_000): Promise<RawOutcome> {
    return callRaw(this.#client, request, { path: SHOULD_RATE_LIMIT_PATH, deadlineMs });
  }

  /** Keeps so many calls under way until `isOver`; what they came to. */
  async keepAsking(request: () => Buffer, calls: number, isOver: () => boolean): Promise<RawOutcome[]> {
    const outcomes: RawOutcome[] = [];
    const askOn = async () => {
      while (!isOver()) outcomes.push(await this.ask(request()));
    };
    await Promise.all(Array.from({ length: calls }, askOn));
    return outcomes;
  }

  close(): void {
    this.#client.close();
  }
}

/** Callers with a connection each. */
export function openCallers(count: number, target: string, secure?: grpc.ChannelCredentials): Caller[] {
  return Array.from({ length: count }, () => new Caller(target, secure));
}

/** True if the call was answered and refused. */
export function isOverLimit({ message }: RawOutcome): boolean {
  return message?.[0] === 0x08 && message[1] === OVER_LIMIT;
}
