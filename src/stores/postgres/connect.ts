// Opens one connection to PostgreSQL, logs in and sets the session up. The store sees a PostgresConnection and nothing
// of pg. The caller decides what to do when the connection is lost.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { Socket } from "node:net";
import { Client, type ClientConfig, type QueryArrayConfig } from "pg";
import type { PostgresTarget } from "../../settings/store-address.ts";
import { readClientTls, SilenceError, withTimeLimit } from "../batching/connecting.ts";
import { isRefusal } from "./refusals.ts";

/** Settings of every session. */
export interface SessionSettings {
  readonly schema: string;
  /** Whether a payment waits until it is on the server's disk. */
  readonly waitsForDisk: boolean;
  /** How long a statement waits for a locked row or table by default. */
  readonly lockTimeoutMs: number;
  readonly statementTimeoutMs: number;
  /** How long a transaction waits for its next statement before PostgreSQL ends the session. */
  readonly idleTimeoutMs: number;
}

/** Rows of texts. */
export type Rows = readonly (readonly (string | null)[])[];

/** A statement; with a name it is prepared once per connection. Values are text, arrays as PostgreSQL writes them. */
export interface Statement {
  readonly name?: string;
  readonly text: string;
  readonly values?: readonly (string | null)[];
}

/** An open connection. Sends statements at once, one after another, and never sends one again. */
export interface PostgresConnection {
  /** The process of the server that the login named; behind a pooler it is one of the pooler's own making. */
  readonly processId: number;
  /** Rejects with a DatabaseError if PostgreSQL refuses the statement, with another Error if its outcome is unknown. */
  query(statement: Statement): Promise<Rows>;
  /** Closes it without waiting for anything; `onLost` is not called for it. */
  drop(): void;
}

/**
 * Connects, logs in and sets the session up. Rejects with what went wrong (connect-trouble.ts makes a sentence of it).
 * `onLost` is called once if the connection ends on its own afterwards.
 */
export async function openPostgresConnection(
  target: PostgresTarget,
  session: SessionSettings,
  onLost: () => void,
): Promise<PostgresConnection> {
  const socket = new Socket();
  // Behind a pooler that shares sessions by transaction, another session refuses these names before it runs anything.
  const suffix = `:${randomUUID()}`;
  const client = new Client({ ...optionsOf(target), stream: () => socket });
  let isOver = false;
  let firstError: Error | undefined;
  // Errors outside a query. The end of the connection, which follows each of them, is handled.
  client.on("error", (error: Error) => {
    firstError ??= error;
  });
  const connection: PostgresConnection = {
    get processId() {
      return (client as { readonly processID?: number | null }).processID ?? 0;
    },
    query: async (statement) => (await client.query(queryOf(statement, suffix))).rows,
    drop: () => {
      isOver = true;
      socket.destroy();
    },
  };
  try {
    await withTimeLimit(target.connectTimeoutMs * 2, client.connect());
    await withTimeLimit(target.connectTimeoutMs, connection.query(sessionStatement(session)));
  } catch (error) {
    connection.drop();
    throw isRefusal(error) || error instanceof SilenceError ? error : (firstError ?? error);
  }
  client.on("end", () => {
    if (!isOver) onLost();
    isOver = true;
  });
  return connection;
}

// Every value is read as the text that PostgreSQL sends: 64-bit numbers fit no other type of pg.
const AS_TEXT = { getTypeParser: () => (text: string) => text };

function queryOf({ name, text, values = [] }: Statement, suffix: string): QueryArrayConfig {
  return {
    ...(name === undefined ? {} : { name: name + suffix }),
    text,
    values: [...values],
    rowMode: "array",
    types: AS_TEXT,
  };
}

function optionsOf(target: PostgresTarget): ClientConfig {
  const { host, port, database, user, tls } = target;
  const password = passwordOf(target);
  return {
    host,
    port,
    database,
    user,
    // pg would otherwise look for passwords and hosts in the environment.
    password: password ?? "",
    ssl: tls === undefined ? false : readClientTls(tls, host),
    application_name: "headgate",
    connectionTimeoutMillis: target.connectTimeoutMs,
    pipeline: true,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  };
}

function passwordOf({ password, passwordFile }: PostgresTarget): string | undefined {
  return passwordFile === undefined ? password : readFileSync(passwordFile, "utf8").replace(/\r?\n$/, "");
}

// Buckets are always looked up by key: a plan for a small table must not be kept when the table grows.
function sessionStatement(session: SessionSettings): Statement {
  const parameters: Readonly<Record<string, string>> = {
    search_path: `"${session.schema}"`,
    default_transaction_isolation: "read committed",
    synchronous_commit: session.waitsForDisk ? "on" : "off",
    lock_timeout: String(session.lockTimeoutMs),
    statement_timeout: String(session.statementTimeoutMs),
    idle_in_transaction_session_timeout: String(session.idleTimeoutMs),
    client_min_messages: "error",
    enable_seqscan: "off",
    enable_hashjoin: "off",
    enable_mergejoin: "off",
    plan_cache_mode: "force_generic_plan",
    jit: "off",
  };
  const names = Object.keys(parameters);
  const calls = names.map((name, i) => `set_config('${name}', $${i + 1}, false)`);
  return { text: `SELECT ${calls.join(", ")}`, values: Object.values(parameters) };
}
