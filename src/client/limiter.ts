// The client for services that ask Headgate directly: one check, one call, one decision. HTTP is left to middleware.ts.

import { type MethodDefinition, type ServiceError, status } from "@grpc/grpc-js";
import { WallClock } from "../core/clock.ts";
import { loadProto, RATE_LIMIT_SERVICE } from "../transport/load-proto.ts";
import { type CheckDecision, decisionOf, type WireAnswer, withoutAnswer } from "./decision.ts";
import { CheckFailure, type OnFailure } from "./failure.ts";
import { type CheckRequest, wireRequest } from "./request.ts";
import { type Server, ServerRing, type TlsOptions } from "./server-ring.ts";

export interface LimiterOptions {
  /** `host:port`, `unix:PATH`, or `dns:///NAME:PORT` for a name with many addresses. At least one; taken in turn. */
  readonly servers: readonly string[];
  /** How long a check may take, with connecting. Default: 100. */
  readonly deadlineMs?: number;
  /** What a check becomes that got no usable answer. Default: `allow`. */
  readonly onFailure?: OnFailure;
  /** Told of every check that got no usable answer, once each: count them here. Must not throw. */
  readonly onDegraded?: (failure: CheckFailure) => void;
  /** Connections are pinged this often, so that one that died without a word is noticed. 0: never. Default: 20,000. */
  readonly keepaliveMs?: number;
  /** How long a ping may stay unanswered. Default: 5,000. */
  readonly keepaliveTimeoutMs?: number;
  /** `true`: TLS with the public authorities. Default: no TLS. */
  readonly tls?: boolean | TlsOptions;
}

export interface Limiter {
  /**
   * Asks once. Never sends a call a second time: it may have been paid. Rejects only under `onFailure: "throw"`, with a
   * CheckFailure; being over a limit is a decision.
   */
  check(request: CheckRequest): Promise<CheckDecision>;
  /** Lets go of the connections. Checks under way may end; later ones fail as the policy has it. */
  close(): void;
}

const DEFAULTS = { deadlineMs: 100, keepaliveMs: 20_000, keepaliveTimeoutMs: 5_000 } as const;

/** Opens connections to the servers and returns at once. Throws TypeError for options that make no sense. */
export function createLimiter(options: LimiterOptions): Limiter {
  if (options.servers.length === 0) throw new TypeError("servers is empty: expected at least one host:port");
  const deadlineMs = options.deadlineMs ?? DEFAULTS.deadlineMs;
  if (!(deadlineMs > 0)) throw new TypeError(`deadlineMs is ${deadlineMs}: expected a number above 0`);
  return new GrpcLimiter(options, deadlineMs);
}

/** The clock that grpc-js compares deadlines with. */
const clock = new WallClock();

class GrpcLimiter implements Limiter {
  readonly #ring: ServerRing;
  readonly #method = shouldRateLimit();
  readonly #deadlineMs: number;
  readonly #onFailure: OnFailure;
  readonly #onDegraded: ((failure: CheckFailure) => void) | undefined;
  #isClosed = false;

  constructor(options: LimiterOptions, deadlineMs: number) {
    const { tls } = options;
    this.#ring = new ServerRing({
      servers: options.servers,
      tls: tls === true ? {} : tls === false ? undefined : tls,
      keepaliveMs: options.keepaliveMs ?? DEFAULTS.keepaliveMs,
      keepaliveTimeoutMs: options.keepaliveTimeoutMs ?? DEFAULTS.keepaliveTimeoutMs,
      clock,
    });
    this.#deadlineMs = deadlineMs;
    this.#onFailure = options.onFailure ?? "allow";
    this.#onDegraded = options.onDegraded;
  }

  async check(request: CheckRequest): Promise<CheckDecision> {
    try {
      return decisionOf(await this.#ask(request));
    } catch (error) {
      const failure = asFailure(error);
      this.#onDegraded?.(failure);
      if (this.#onFailure === "throw") throw failure;
      return withoutAnswer(this.#onFailure, failure);
    }
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#ring.close();
  }

  async #ask(request: CheckRequest): Promise<WireAnswer> {
    if (this.#isClosed) throw new CheckFailure("CANCELLED", "the limiter was closed");
    const message = messageOf(request);
    const deadline = clock.nowUs() / 1_000 + this.#deadlineMs;
    const server = await this.#ring.pick(deadline);
    if (server === "away") throw new CheckFailure("UNAVAILABLE", "none of the servers is in reach");
    if (server === "late") {
      throw new CheckFailure("DEADLINE_EXCEEDED", `no connection to any server within ${this.#deadlineMs} ms`);
    }
    return this.#send(server, message, deadline);
  }

  #send(server: Server, message: object, deadline: number): Promise<WireAnswer> {
    const { path, requestSerialize, responseDeserialize } = this.#method;
    return new Promise((resolve, reject) => {
      server.client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        message,
        { deadline },
        (error, answer) => {
          if (error === null) {
            this.#ring.answered(server);
            resolve(answer as WireAnswer);
            return;
          }
          if (isFaultOfServer(error)) this.#ring.failed(server);
          else this.#ring.answered(server);
          reject(failureOf(error, server.address));
        },
      );
    });
  }
}

function shouldRateLimit(): MethodDefinition<object, object> {
  const service = loadProto()[RATE_LIMIT_SERVICE] as unknown as { ShouldRateLimit: MethodDefinition<object, object> };
  return service.ShouldRateLimit;
}

// The others say something about the request, and would come from every server.
function isFaultOfServer({ code }: ServiceError): boolean {
  return code !== status.INVALID_ARGUMENT && code !== status.CANCELLED;
}

function failureOf(error: ServiceError, server: string): CheckFailure {
  return new CheckFailure(status[error.code] ?? String(error.code), error.details, { server, cause: error });
}

function messageOf(request: CheckRequest): object {
  try {
    return wireRequest(request);
  } catch (error) {
    throw new CheckFailure("INVALID_ARGUMENT", messageIn(error), { cause: error });
  }
}

function asFailure(error: unknown): CheckFailure {
  return error instanceof CheckFailure ? error : new CheckFailure("INTERNAL", messageIn(error), { cause: error });
}

function messageIn(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
