// Says in one sentence why PostgreSQL can't be used. Never quotes a password or a statement: uses only the server's
// error codes and names from the settings.

import type { PostgresTarget } from "../../settings/store-address.ts";
import { describeConnectError, HUNG_UP, type OwnTroubles } from "../batching/connecting.ts";
import { isRefusal } from "./refusals.ts";
import { SchemaError } from "./schema.ts";

/** Where PostgreSQL is, for messages. No login. */
export function nameOfPostgres({ host, port }: PostgresTarget): string {
  if (host.startsWith("/")) return `PostgreSQL at ${host}/.s.PGSQL.${port}`;
  return `PostgreSQL at ${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** The problem as a sentence without its full stop. `error` is what connecting, setting up or a call threw. */
export function describePostgresTrouble(error: unknown, target: PostgresTarget): string {
  const name = nameOfPostgres(target);
  if (isRefusal(error)) return `${name} ${describeRefusal(error.code ?? "", target)}`;
  if (error instanceof SharedSessionError) return `${name} ${POOLED}`;
  if (error instanceof SchemaError) return `${name} ${error.message}`;
  return `${name} ${describeConnectError(error, OWN_TROUBLES)}`;
}

/** Other connections use this one's session, too. */
export class SharedSessionError extends Error {}

const POOLED =
  "is behind a pooler that shares sessions by transaction: connect directly, or through one in session mode";

const OWN_TROUBLES: OwnTroubles = {
  beforeTls: [[/does not support SSL/i, "does not speak TLS"]],
  afterTls: [
    [/timeout/i, "can't be reached in time"],
    [/terminated|ended|closed/i, HUNG_UP],
    [/password must be a string|SCRAM|SASL/i, "needs a password, and none is set"],
  ],
  tlsHint: "",
};

/** By SQLSTATE, or by its class of two letters. */
const REFUSALS: Readonly<Record<string, string>> = {
  "28P01": "refuses the password or the user name",
  "28000": "does not let the user log in from here",
  "3D000": "does not have the configured database",
  "42501": "does not allow the user to use or create Headgate's tables and functions",
  "42P01": "lacks one of Headgate's tables",
  "42883": "lacks one of Headgate's functions",
  "25006": "is read-only: a standby, or default_transaction_read_only is on",
  "25P03": "ended the session because this process was stopped or too busy",
  "26000": POOLED,
  "42P05": POOLED,
  "40001": "had too many calls in conflict",
  "40P01": "had calls in a deadlock",
  "55P03": "kept rows locked for too long",
  "57014": "canceled the call because it took too long",
  "57P01": "is shutting down",
  "57P02": "crashed and is restarting",
  "57P03": "is starting or shutting down",
  "53": "is out of connections, memory or disk",
  "58": "has a disk problem",
  XX: "has an internal error",
};

function describeRefusal(code: string, { user }: PostgresTarget): string {
  const known = REFUSALS[code] ?? REFUSALS[code.slice(0, 2)];
  if (known === undefined) return `answers with an error (${code || "no code"})`;
  return `${known.replace("the user to", `the user ${user} to`)} (${code})`;
}
