// Options and interface of a gRPC server, for both transports.

import type { MethodDefinition } from "@grpc/grpc-js";
import type { Clock } from "../../base/clock.ts";
import type { HealthState } from "../../base/health.ts";
import type { StreamMethod } from "../streams.ts";
import type { GrpcStatus, TransportObserver, UnaryMethod } from "../unary.ts";
import type { TlsFiles } from "./tls-files.ts";

export interface GrpcServerOptions {
  readonly methods: readonly UnaryMethod[];
  /** Methods with streams both ways. `onDrain` ends their calls when a shutdown begins. */
  readonly streams?: readonly StreamMethod[];
  readonly onDrain?: () => void;
  readonly clock: Clock;
  readonly health: HealthState;
  readonly reflection: boolean;
  /**
   * Age at which a connection is asked to go, varied by up to a tenth, so that load moves. In milliseconds; Infinity:
   * never.
   */
  readonly maxConnectionAgeMs: number;
  /** How long the calls of such a connection may take to finish, in milliseconds. */
  readonly maxConnectionAgeGraceMs: number;
  /** Interval of pings on quiet connections, in milliseconds. Infinity: never. */
  readonly keepaliveMs: number;
  readonly maxConcurrentStreams: number;
  /** Longer requests get RESOURCE_EXHAUSTED. In bytes. */
  readonly maxMessageBytes: number;
  /** Calls that may wait for their answer, over all connections; further ones get RESOURCE_EXHAUSTED. */
  readonly inFlightMax: number;
  readonly observer: TransportObserver;
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** The option that sets host and port, for the error; by default the settings of the service. */
  readonly portOption?: string;
  /** Path of a Unix socket to listen on in place of host and port. */
  readonly unixSocket?: string | undefined;
  /** Certificates for TLS; undefined serves plaintext. */
  readonly tls?: TlsFiles | undefined;
}

/** A listening server. */
export interface GrpcServer {
  /** The port; 0 for a Unix socket. */
  readonly port: number;
  /** Calls that wait for their answer. */
  inFlight(): number;
  /** Connections that were ended and streams that were reset because of what peers did, by kind. */
  readonly troubles: Readonly<Record<string, number>>;
  /** What the fast lane has read; grpc-js counts nothing. */
  readonly counts?: Readonly<Record<"connections" | "unaryCalls" | "streams", number>>;
  /**
   * Accepts no new connections and calls, lets calls under way finish, and cuts off what is left after `graceMs`
   * milliseconds. Resolves when all is closed. A second call gets the same promise.
   */
  drain(graceMs: number): Promise<void>;
}

/** A method of health or reflection: its handler gets messages, not bytes. Each request has any number of answers. */
export interface MessageMethod {
  /** Its path, whether requests come as a stream, and how messages become bytes. */
  readonly definition: MethodDefinition<object, object>;
  /** Takes the request, or each of a stream and then, when the caller has sent all, undefined. */
  readonly handle: (request: object | undefined, call: MessageCall) => void;
}

/** A call of such a method, as its handler sees it. */
export interface MessageCall {
  /** Answers that wait for the caller to read. */
  readonly unread: number;
  answer(message: object): void;
  /** Ends the call after its answers, with OK unless another status is given. */
  end(status?: CallStatus): void;
  /** Calls `listener` when the call is over; a call may have one listener. */
  onOver(listener: () => void): void;
}

/** How a call ends. */
export interface CallStatus {
  readonly code: GrpcStatus;
  readonly details: string;
}
