// grpc.health.v1: answers for each known service name with the HealthState of the process. No memory is kept for
// unknown names.

import type { HealthState } from "../../base/health.ts";
import { LatestRun } from "../../base/latest-run.ts";
import { type LongWork, runInTurns } from "../../base/long-work.ts";
import { GrpcStatus } from "../unary.ts";
import { HEALTH_SERVICE, messageMethod } from "./load-proto.ts";
import type { MessageCall, MessageMethod } from "./transport.ts";

interface HealthResponse {
  readonly status: ServingStatus;
}

/** The protocol's numbers. */
const SERVING = 1;
const NOT_SERVING = 2;
const SERVICE_UNKNOWN = 3;
type ServingStatus = typeof SERVING | typeof NOT_SERVING | typeof SERVICE_UNKNOWN;

/** Changes that may wait for a watcher that does not read; beyond it the watcher is cut off. */
const UNREAD_CHANGES_MAX = 16;

/** The health service of one server. */
export class HealthService {
  readonly #health: HealthState;
  readonly #names: ReadonlySet<string>;
  readonly #watchers = new Map<MessageCall, boolean>();
  // Telling one watcher takes grpc-js up to a millisecond.
  readonly #telling = new LatestRun(() => runInTurns(this.#tellWatchers()));
  readonly #watchersMax: number;
  readonly #stopWatching: () => void;

  /**
   * `names` are the known service names; the empty name is the whole server. More than `watchersMax` streams of Watch
   * are refused.
   */
  constructor(health: HealthState, names: Iterable<string>, watchersMax: number) {
    this.#watchersMax = watchersMax;
    this.#health = health;
    this.#names = new Set(names);
    this.#stopWatching = health.watch(() => void this.#telling.run(undefined));
  }

  methods(): readonly MessageMethod[] {
    const check = { request: `grpc.health.v1.HealthCheckRequest`, response: "grpc.health.v1.HealthCheckResponse" };
    const list = { request: "grpc.health.v1.HealthListRequest", response: "grpc.health.v1.HealthListResponse" };
    return [
      messageMethod(`/${HEALTH_SERVICE}/Check`, check, (request, call) => this.#check(nameIn(request), call)),
      messageMethod(`/${HEALTH_SERVICE}/Watch`, { ...check, streams: "answers" }, (request, call) =>
        this.#watch(nameIn(request), call),
      ),
      messageMethod(`/${HEALTH_SERVICE}/List`, list, (_request, call) => this.#list(call)),
    ];
  }

  /** Ends every Watch, first with NOT_SERVING, then UNAVAILABLE, so that none delays a shutdown. */
  close(): void {
    this.#stopWatching();
    for (const [call, isKnown] of this.#watchers) {
      if (isKnown) call.answer({ status: NOT_SERVING } satisfies HealthResponse);
      call.end({ code: GrpcStatus.unavailable, details: "the server is shutting down" });
    }
    this.#watchers.clear();
  }

  #check(name: string, call: MessageCall): void {
    if (this.#names.has(name)) {
      call.answer(this.#response());
      call.end();
    } else call.end({ code: GrpcStatus.notFound, details: "unknown service name" });
  }

  #list(call: MessageCall): void {
    const response = this.#response();
    call.answer({ statuses: Object.fromEntries([...this.#names].map((name) => [name, response])) });
    call.end();
  }

  #watch(name: string, call: MessageCall): void {
    if (this.#watchers.size >= this.#watchersMax) {
      call.end({ code: GrpcStatus.resourceExhausted, details: `more than ${this.#watchersMax} watchers` });
      return;
    }
    const isKnown = this.#names.has(name);
    this.#watchers.set(call, isKnown);
    call.onOver(() => this.#watchers.delete(call));
    call.answer(isKnown ? this.#response() : ({ status: SERVICE_UNKNOWN } satisfies HealthResponse));
  }

  // Reads the state for each watcher, so one that hears late gets the current state.
  *#tellWatchers(): LongWork<void> {
    for (const [call, isKnown] of [...this.#watchers]) {
      if (!isKnown || !this.#watchers.has(call)) continue;
      if (call.unread < UNREAD_CHANGES_MAX) call.answer(this.#response());
      else call.end({ code: GrpcStatus.resourceExhausted, details: "the watcher does not read" });
      yield;
    }
  }

  #response(): HealthResponse {
    return { status: this.#health.isServing() ? SERVING : NOT_SERVING };
  }
}

function nameIn(request: object | undefined): string {
  return (request as { readonly service: string }).service;
}
