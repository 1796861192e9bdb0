// What the supervisor and its workers say to each other, over the channel that Node opens between a process and those it
// forks. Both ends are one version of one program, so messages are not checked.

import type { Condition } from "../core/condition.ts";
import type { TopSummary } from "../telemetry/top/summary.ts";
import type { TopWindow } from "../telemetry/top/top-keys.ts";

/** The addresses that the supervisor listens on for its workers. */
export const LISTENER_NAMES = ["grpc", "http", "debug", "metrics"] as const;
export type ListenerName = (typeof LISTENER_NAMES)[number];

/** What is wrong with a process, by part, one sentence each. */
export type PartNotesRecord = Readonly<Record<string, string>>;

/** Counters that all workers have counted together: values of series by metric. */
export type FleetCounts = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** How a worker fares, said once a second. */
export interface WorkerReport {
  readonly openStreams: number;
  /** Calls that it has read since it started. */
  readonly calls: number;
  readonly rules: {
    /** Null before the first rule set. */
    readonly version: number | null;
    readonly hash: string | null;
    /** Why the last load changed nothing; null if it took effect. */
    readonly lastError: string | null;
    /** When they came in force, in microseconds since the epoch. */
    readonly loadedAtUs?: number | undefined;
  };
  /** What is wrong with it. */
  readonly conditions: readonly Condition[];
}

/** A worker as `/config` shows it. */
export interface WorkerView extends Partial<WorkerReport> {
  readonly worker: number;
  readonly pid: number;
  readonly status: "starting" | "ready" | "not ready";
  readonly connections: number;
}

export type ToWorker =
  /** First of all. A listener that is not named does not exist. */
  | { readonly kind: "start"; readonly number: number; readonly ports: Readonly<Partial<Record<ListenerName, number>>> }
  /** Comes with a socket. */
  | { readonly kind: "connection"; readonly listener: ListenerName }
  | { readonly kind: "opened"; readonly listener: ListenerName; readonly port: number }
  /** What the workers beside this one say of themselves, with their numbers in the names of the parts. */
  | { readonly kind: "others"; readonly troubles: PartNotesRecord; readonly notes: PartNotesRecord }
  | { readonly kind: "reload" }
  | { readonly kind: "stop"; readonly delays: boolean }
  /** Send a connection away: you have so many open streams more than somebody else. */
  | { readonly kind: "move"; readonly surplus: number }
  /** Send your own metrics, in pieces. */
  | { readonly kind: "page wanted"; readonly id: number }
  /** Part of the metrics of all, as asked for. `trouble`, with the last: why they can't be shown. */
  | {
      readonly kind: "page";
      readonly id: number;
      readonly text: string;
      readonly isLast: boolean;
      readonly trouble?: string;
    }
  | { readonly kind: "views"; readonly id: number; readonly views: readonly WorkerView[] }
  | { readonly kind: "fleet counts"; readonly id: number; readonly counts: FleetCounts }
  /** Send your own top keys. */
  | ({ readonly kind: "top wanted"; readonly id: number } & TopWanted)
  /** The top keys of each worker that sent them in time. */
  | { readonly kind: "tops"; readonly id: number; readonly tops: readonly TopSummary[] };

/** Which top keys: at most so many by each order. */
export interface TopWanted {
  readonly window: TopWindow;
  readonly keysMax: number;
}

export type FromWorker =
  /** Takes connections from now on. The gRPC listener is the last: then the worker serves. */
  | { readonly kind: "open"; readonly listener: ListenerName }
  | { readonly kind: "close"; readonly listener: ListenerName }
  /** A connection has ended. */
  | { readonly kind: "left"; readonly listener: ListenerName }
  | { readonly kind: "health"; readonly troubles: PartNotesRecord; readonly notes: PartNotesRecord }
  | { readonly kind: "report"; readonly report: WorkerReport }
  /** Counters that have changed, once a second: what is left of them if the worker is killed. As CountChanges has them. */
  | { readonly kind: "counts"; readonly text: string; readonly isAfresh: boolean }
  /** Could not start; it ends now. `isOurs`: by a fault of the program, not of its settings. */
  | { readonly kind: "failed"; readonly message: string; readonly isOurs: boolean }
  /** What came of "move": the streams that went with the connection, or null if none fitted. */
  | { readonly kind: "moved"; readonly streams: number | null }
  | { readonly kind: "page"; readonly id: number; readonly text: string; readonly isLast: boolean }
  | { readonly kind: "page wanted"; readonly id: number }
  | { readonly kind: "views wanted"; readonly id: number }
  /** Asks for what all have counted together of these metrics. */
  | { readonly kind: "fleet counts wanted"; readonly id: number; readonly metrics: readonly string[] }
  | { readonly kind: "top"; readonly id: number; readonly top: TopSummary }
  | ({ readonly kind: "tops wanted"; readonly id: number } & TopWanted);
