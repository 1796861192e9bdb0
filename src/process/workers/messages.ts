// The messages between the supervisor and its workers, over the IPC channel of a forked process. Both ends are the same version of
// the same program, so messages are not checked.

import type { Condition } from "../../operate/condition.ts";
import type { TopSummary } from "../../operate/telemetry/top/summary.ts";
import type { TopWindow } from "../../operate/telemetry/top/top-keys.ts";

/** The addresses that the supervisor listens on for its workers. */
export const LISTENER_NAMES = ["grpc", "http", "debug", "metrics"] as const;
export type ListenerName = (typeof LISTENER_NAMES)[number];

/** What is wrong with a process: a sentence by part. */
export type PartNotesRecord = Readonly<Record<string, string>>;

/** Counters summed over all workers: values by metric and series. */
export type FleetCounts = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** A worker's state, reported once a second. */
export interface WorkerReport {
  readonly openStreams: number;
  /** Calls read since its start. */
  readonly calls: number;
  readonly rules: {
    /** Null before the first rule set. */
    readonly version: number | null;
    readonly hash: string | null;
    /** Why the last load changed nothing; null if it succeeded. */
    readonly lastError: string | null;
    /** When the rules came in force, in microseconds since the epoch. */
    readonly loadedAtUs?: number | undefined;
  };
  /** What is wrong with the worker. */
  readonly conditions: readonly Condition[];
}

/** A worker as the supervisor knows it. */
export interface WorkerView extends Partial<WorkerReport> {
  readonly worker: number;
  readonly pid: number;
  readonly status: "starting" | "ready" | "not ready";
  readonly connections: number;
}

export type ToWorker =
  /** The first message. A listener without a port here does not exist. */
  | { readonly kind: "start"; readonly number: number; readonly ports: Readonly<Partial<Record<ListenerName, number>>> }
  /** Sent with a socket. */
  | { readonly kind: "connection"; readonly listener: ListenerName }
  | { readonly kind: "opened"; readonly listener: ListenerName; readonly port: number }
  /** Troubles and notes of the other workers; the names of the parts carry the workers' numbers. */
  | { readonly kind: "others"; readonly troubles: PartNotesRecord; readonly notes: PartNotesRecord }
  | { readonly kind: "reload" }
  | { readonly kind: "stop"; readonly delays: boolean }
  /** Asks to send a connection away: the worker has `surplus` open streams more than another. */
  | { readonly kind: "move"; readonly surplus: number }
  /** Asks for this worker's own metrics. */
  | { readonly kind: "page wanted"; readonly id: number }
  /** A piece of the metrics of all workers. The last piece has `trouble` if they can't be shown. */
  | {
      readonly kind: "page";
      readonly id: number;
      readonly text: string;
      readonly isLast: boolean;
      readonly trouble?: string;
    }
  | { readonly kind: "views"; readonly id: number; readonly views: readonly WorkerView[] }
  | { readonly kind: "fleet counts"; readonly id: number; readonly counts: FleetCounts }
  /** Asks for this worker's own top keys. */
  | ({ readonly kind: "top wanted"; readonly id: number } & TopWanted)
  /** The top keys of each worker that answered in time. */
  | { readonly kind: "tops"; readonly id: number; readonly tops: readonly TopSummary[] };

/** A question for top keys: at most `keysMax` in each order. */
export interface TopWanted {
  readonly window: TopWindow;
  readonly keysMax: number;
}

export type FromWorker =
  /** Takes connections from now on. The gRPC listener opens last; from then on the worker serves. */
  | { readonly kind: "open"; readonly listener: ListenerName }
  | { readonly kind: "close"; readonly listener: ListenerName }
  /** A connection has ended. */
  | { readonly kind: "left"; readonly listener: ListenerName }
  | { readonly kind: "health"; readonly troubles: PartNotesRecord; readonly notes: PartNotesRecord }
  | { readonly kind: "report"; readonly report: WorkerReport }
  /** Counters that have changed, once a second (CountChanges). They survive if the worker is killed. */
  | { readonly kind: "counts"; readonly text: string; readonly isAfresh: boolean }
  /** The worker could not start and ends now. `isOurs`: an internal error, not a wrong setting. */
  | { readonly kind: "failed"; readonly message: string; readonly isOurs: boolean }
  /** The answer to "move": the number of streams on the connection that was sent away, or null if none was suitable. */
  | { readonly kind: "moved"; readonly streams: number | null }
  | { readonly kind: "page"; readonly id: number; readonly text: string; readonly isLast: boolean }
  | { readonly kind: "page wanted"; readonly id: number }
  | { readonly kind: "views wanted"; readonly id: number }
  /** Asks for the sums of these metrics over all workers. */
  | { readonly kind: "fleet counts wanted"; readonly id: number; readonly metrics: readonly string[] }
  | { readonly kind: "top"; readonly id: number; readonly top: TopSummary }
  | ({ readonly kind: "tops wanted"; readonly id: number } & TopWanted);
