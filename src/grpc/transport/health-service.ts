// grpc.health.v1: answers for each known service name with the HealthState of the process. No memory is kept for unknown names.

import type {
  handleServerStreamingCall,
  handleUnaryCall,
  ServerWritableStream,
  UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { HealthState } from "../../engine/base/health.ts";
import { GrpcStatus } from "../unary.ts";

interface HealthRequest {
  readonly service: string;
}
interface HealthResponse {
  readonly status: ServingStatus;
}
interface HealthList {
  readonly statuses: Readonly<Record<string, HealthResponse>>;
}
type WatchCall = ServerWritableStream<HealthRequest, HealthResponse>;

/** The protocol's numbers. */
const SERVING = 1;
const NOT_SERVING = 2;
const SERVICE_UNKNOWN = 3;
type ServingStatus = typeof SERVING | typeof NOT_SERVING | typeof SERVICE_UNKNOWN;

/** Watchers that are told of a change in one turn; each takes grpc-js up to a millisecond. */
const TOLD_PER_TURN = 8;
/** Changes that may wait for a watcher that does not read; beyond it the watcher is cut off. */
const UNREAD_CHANGES_MAX = 16;

/** The health service of one server. */
export class HealthService {
  readonly #health: HealthState;
  readonly #names: ReadonlySet<string>;
  readonly #watchers = new Map<WatchCall, boolean>();
  // Watchers that have not been told of the last change yet.
  readonly #untold = new Set<WatchCall>();
  readonly #watchersMax: number;
  readonly #stopWatching: () => void;

  /** `names` are the known service names; the empty name stands for the whole server. More than `watchersMax` streams of Watch are refused. */
  constructor(health: HealthState, names: Iterable<string>, watchersMax: number) {
    this.#watchersMax = watchersMax;
    this.#health = health;
    this.#names = new Set(names);
    this.#stopWatching = health.watch(() => this.#tellWatchers());
  }

  /** The methods in the form of grpc-js. */
  implementation(): UntypedServiceImplementation {
    return { Check: this.#check, Watch: this.#watch, List: this.#list };
  }

  /** Ends every Watch, so that none delays a shutdown: first NOT_SERVING, then UNAVAILABLE. */
  close(): void {
    this.#stopWatching();
    for (const [call, isKnown] of this.#watchers) {
      if (isKnown) call.write({ status: NOT_SERVING } satisfies HealthResponse);
      endWith(call, GrpcStatus.unavailable, "the server is shutting down");
    }
    this.#watchers.clear();
    this.#untold.clear();
  }

  readonly #check: handleUnaryCall<HealthRequest, HealthResponse> = (call, respond) => {
    if (this.#names.has(call.request.service)) respond(null, this.#response());
    else respond({ code: GrpcStatus.notFound, details: "unknown service name" });
  };

  readonly #list: handleUnaryCall<unknown, HealthList> = (_call, respond) => {
    const response = this.#response();
    respond(null, { statuses: Object.fromEntries([...this.#names].map((name) => [name, response])) });
  };

  readonly #watch: handleServerStreamingCall<HealthRequest, HealthResponse> = (call) => {
    if (this.#watchers.size >= this.#watchersMax) {
      endWith(call, GrpcStatus.resourceExhausted, `more than ${this.#watchersMax} watchers`);
      return;
    }
    const isKnown = this.#names.has(call.request.service);
    this.#watchers.set(call, isKnown);
    const gone = () => {
      this.#watchers.delete(call);
      this.#untold.delete(call);
    };
    call.on("cancelled", gone);
    call.on("close", gone);
    call.write(isKnown ? this.#response() : ({ status: SERVICE_UNKNOWN } satisfies HealthResponse));
  };

  #tellWatchers(): void {
    const isTelling = this.#untold.size > 0;
    for (const [call, isKnown] of this.#watchers) if (isKnown) this.#untold.add(call);
    if (!isTelling) this.#tellSome();
  }

  // Reads the state anew in each turn, so a watcher that is told late hears the state of that moment.
  #tellSome(): void {
    const response = this.#response();
    let left = TOLD_PER_TURN;
    for (const call of this.#untold) {
      if (left-- === 0) {
        setImmediate(() => this.#tellSome());
        return;
      }
      this.#untold.delete(call);
      if (call.writableLength < UNREAD_CHANGES_MAX) call.write(response);
      else endWith(call, GrpcStatus.resourceExhausted, "the watcher does not read");
    }
  }

  #response(): HealthResponse {
    return { status: this.#health.isServing() ? SERVING : NOT_SERVING };
  }
}

// grpc-js ends a stream with a status other than OK when it emits an error that carries one.
function endWith(call: WatchCall, code: GrpcStatus, details: string): void {
  call.emit("error", Object.assign(new Error(details), { code, details }));
}
