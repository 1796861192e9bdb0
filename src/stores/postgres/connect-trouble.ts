// Says in one sentence why PostgreSQL can't be used. Never quotes a password or a statement: of what the server says only
// its codes are used, and names that are set here anyway.

import { CONNECT_TROUBLES, HUNG_UP } from "../batching/connect-troubles.ts";
import { SilenceError } from "../batching/time-limit.ts";
import { isRefusal, type PostgresTarget } from "./connect.ts";
import { MigrationError } from "./migrations.ts";

/** Where PostgreSQL is, for messages. No login. */
export function nameOfTarget({ host, port }: PostgresTarget): string {
  if (host.startsWith("/")) return `PostgreSQL at ${host}/.s.PGSQL.${port}`;
  return `PostgreSQL at ${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** The problem as a sentence without its full stop. `error` is what connecting, migrating or a call threw. */
export function describeTrouble(error: unknown, target: PostgresTarget): string {
  const name = nameOfTarget(target);
  if (isRefusal(error)) return `${name} ${describeRefusal(error.code ?? "", target)}`;
  if (error instanceof MigrationError) return `${name} ${error.message}`;
  if (error instanceof SilenceError) return `${name} accepts connections but does not answer (${error.message})`;
  if (!(error instanceof Error)) return `${name} can't be used`;
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if ("syscall" in error && error.syscall === "open" && "path" in error) {
    return `${name} can't be used, because ${String(error.path)} can't be read (${code})`;
  }
  const known = CONNECT_TROUBLES[code];
  if (known !== undefined) return `${name} ${known}`;
  if (/does not support SSL/i.test(error.message)) return `${name} does not speak TLS`;
  if (code.startsWith("ERR_SSL") || code.startsWith("ERR_OSSL")) return `${name} can't be reached by TLS (${code})`;
  if (/certificate/i.test(error.message))
    return `${name} shows a certificate that is not trusted (${code || "no code"})`;
  if (/timeout/i.test(error.message)) return `${name} can't be reached in time`;
  if (/terminated|ended|closed/i.test(error.message)) return `${name} ${HUNG_UP}`;
  if (/password must be a string|SCRAM|SASL/i.test(error.message)) return `${name} wants a password, and none is set`;
  return `${name} can't be used (${code || error.name})`;
}

/** True if the connection leads to a server that takes no writes, or none that this store may make: another may. */
export function needsAnotherConnection(error: unknown): boolean {
  return isRefusal(error) && /^(25006|57P0[1-5]|08|28|42)/.test(error.code ?? "");
}

/** By SQLSTATE, or by its class of two letters. */
const REFUSALS: Readonly<Record<string, string>> = {
  "28P01": "refuses the password or the user name",
  "28000": "does not let the user log in from here",
  "3D000": "has no database of the name that is set",
  "42501": "does not permit the user to use or to make our tables and functions",
  "42P01": "lacks one of our tables",
  "42883": "lacks one of our functions",
  "25006": "is a read-only standby",
  "40001": "had too many calls in conflict",
  "40P01": "had calls that waited for each other",
  "55P03": "held our rows locked for too long",
  "57014": "stopped our call because it took too long",
  "57P01": "is shutting down",
  "57P02": "crashed and starts again",
  "57P03": "is starting or shutting down",
  "53": "is out of connections, memory or disk",
  "58": "has trouble with its disk",
  XX: "has trouble of its own",
};

function describeRefusal(code: string, { user }: PostgresTarget): string {
  const known = REFUSALS[code] ?? REFUSALS[code.slice(0, 2)];
  if (known === undefined) return `answers with an error (${code || "no code"})`;
  return `${known.replace("the user to", `the user ${user} to`)} (${code})`;
}
