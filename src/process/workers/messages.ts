// The messages between the main thread and its workers. Numbers that change often are in shared-numbers.ts instead.

import type { Socket } from "node:net";
import type { SharedRuntimeTable } from "../../engine/runtime/runtime-table.ts";
import type { Condition } from "../../operate/condition.ts";
import type { ProcessRates } from "../../operate/telemetry/deployment.ts";
import type { NodeMetrics } from "../../operate/telemetry/node-metrics.ts";
import type { HistoryView } from "../../operate/telemetry/rate-history.ts";
import type { TopSummary } from "../../operate/telemetry/top/summary.ts";
import type { TopQuestion } from "../../operate/telemetry/top/top-view.ts";
import type { SharedMemory } from "../open-memory.ts";

/** The addresses that the main thread listens on for its workers. */
export const LISTENER_NAMES = ["grpc", "http", "debug", "metrics"] as const;
export type ListenerName = (typeof LISTENER_NAMES)[number];

/** What is wrong: a sentence by part. */
export type PartNotesRecord = Readonly<Record<string, string>>;

/** What is wrong with one worker, or with all of them. */
export interface Health {
  readonly troubles: PartNotesRecord;
  readonly notes: PartNotesRecord;
}

/** What a worker's thread is started with. */
export interface WorkerData {
  readonly number: number;
  /** A listener without a port here does not exist. The port of gRPC is known once the first worker opens it. */
  readonly ports: Readonly<Partial<Record<ListenerName, number>>>;
  readonly version: string;
  /** Memory that all threads share: SharedNumbers, and SharedCounts, of which a worker has the row before its number. */
  readonly numbers: SharedArrayBuffer;
  readonly counts: SharedArrayBuffer;
  /** The memory store's memory; undefined with another store. */
  readonly memory?: SharedMemory | undefined;
  /** Limits at run time. */
  readonly runtime: SharedRuntimeTable;
}

/** A worker's rules and what is wrong with it. */
export interface WorkerReport {
  readonly rules: {
    /** Null before the first rule set. */
    readonly version: number | null;
    readonly hash: string | null;
    /** Why the last load changed nothing; null if it succeeded. */
    readonly lastError: string | null;
    /** When the rules came in force, in microseconds since the epoch. */
    readonly loadedAtUs?: number | undefined;
  };
  readonly conditions: readonly Condition[];
  /** Only of the worker that syncs with the store. */
  readonly shared: StoreShared | undefined;
}

/** The state of the sync of limits at run time with the store, and the other processes in its register. */
export interface StoreShared {
  readonly failures: number;
  /** Why they can't be brought up to date; null if they are. */
  readonly trouble: string | null;
  readonly processes: readonly ProcessRates[];
}

/** What is asked of a worker. */
export type Question =
  | ({ readonly about: "top" } & TopQuestion)
  | { readonly about: "report" }
  | { readonly about: "history" }
  | { readonly about: "node" };

/** What is answered, by what the question is about. */
export interface Answers {
  readonly top: TopSummary;
  readonly report: WorkerReport;
  /** Undefined except from the worker that takes the samples. */
  readonly history: HistoryView | undefined;
  /** The metrics of Node.js in its thread. */
  readonly node: NodeMetrics;
}

/** The answers of all workers that gave one in time, by their numbers. */
export type AllAnswers = ReadonlyMap<number, unknown>;

export type ToWorker =
  | { readonly kind: "connection"; readonly listener: ListenerName; readonly socket: Socket }
  | { readonly kind: "opened"; readonly listener: ListenerName; readonly port: number }
  /** What is wrong with all workers together, this one included. */
  | ({ readonly kind: "health" } & Health)
  | { readonly kind: "reload" }
  | { readonly kind: "stop"; readonly delays: boolean }
  | { readonly kind: "ask"; readonly id: number; readonly question: Question }
  /** To the worker's own question: AllAnswers. */
  | { readonly kind: "answer"; readonly id: number; readonly answer: unknown };

export type FromWorker =
  /** Takes connections from now on. The gRPC listener opens last; from then on the worker serves. */
  | { readonly kind: "open"; readonly listener: ListenerName }
  | { readonly kind: "close"; readonly listener: ListenerName }
  /** What is wrong with this worker alone; sent on change. */
  | ({ readonly kind: "health" } & Health)
  /** A question to all workers, this one included. */
  | { readonly kind: "ask"; readonly id: number; readonly question: Question }
  | { readonly kind: "answer"; readonly id: number; readonly answer: unknown };
