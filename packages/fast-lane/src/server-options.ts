// Options of a server and their defaults, which are filled in once: everything else takes complete ones.

import type { TlsOptions } from "node:tls";
import type { Bounds } from "./bounds.ts";
import type { Observer, StreamMethod, UnaryMethod } from "./methods.ts";
import { type Clock, SYSTEM_CLOCK } from "./time.ts";

export interface ServerOptions extends Partial<Settings> {
  readonly methods: readonly (UnaryMethod | StreamMethod)[];
  /** 0 picks a free port. */
  readonly port?: number;
  /** By default the loopback: "0.0.0.0" is every address of the machine. */
  readonly host?: string;
  /** Path of a Unix socket to listen on in place of host and port. */
  readonly unixSocket?: string | undefined;
  /** Certificates; undefined serves plaintext. */
  readonly tls?: Certificates | undefined;
  /** Bounds that differ from DEFAULT_BOUNDS. */
  readonly bounds?: Partial<Bounds> | undefined;
}

/** What has a default. */
export interface Settings {
  readonly clock: Clock;
  readonly observer: Observer;
  /**
   * Age at which a connection is asked to go, varied by up to a tenth, so that load moves. In milliseconds; Infinity:
   * never.
   */
  readonly maxConnectionAgeMs: number;
  /** How long the calls of such a connection may take to finish, in milliseconds. */
  readonly maxConnectionAgeGraceMs: number;
  /** Interval of pings on quiet connections, in milliseconds. Infinity: never. */
  readonly keepaliveMs: number;
  /** Streams that a connection may have open; more are refused. */
  readonly maxConcurrentStreams: number;
  /** Longer requests get RESOURCE_EXHAUSTED. In bytes. */
  readonly maxMessageBytes: number;
  /** Unary calls that may wait for their answer, over all connections; further ones get RESOURCE_EXHAUSTED. */
  readonly inFlightMax: number;
  /** A sentence for people who ask here by HTTP/1.1 or without gRPC. */
  readonly hint: string;
  /** What a caller is told whose deadline had passed before the call was read. */
  readonly lateDetails: string;
}

/** Certificates of a server, which may change. */
export interface Certificates {
  /**
   * What is in force, for node:tls: `key`, `cert`; with `ca`, `requestCert` and `rejectUnauthorized` clients must show
   * one, too.
   */
  readonly options: TlsOptions;
  /** Calls `listener` with what is in force now and after each change. */
  subscribe?(listener: (options: TlsOptions) => void): void;
  /** Why no call of a client with this certificate (DER) is served; undefined if calls are served. */
  refusalOf?(certificate: Buffer | undefined): string | undefined;
}

const nothing = () => undefined;

export const DEFAULTS: Settings = {
  clock: SYSTEM_CLOCK,
  observer: { handlerFailed: nothing, overloaded: nothing, unserved: nothing },
  maxConnectionAgeMs: Number.POSITIVE_INFINITY,
  maxConnectionAgeGraceMs: 30_000,
  keepaliveMs: 60_000,
  maxConcurrentStreams: 1_024,
  maxMessageBytes: 4_194_304,
  inFlightMax: 10_000,
  hint: "",
  lateDetails: "the deadline passed before the call was read",
};
