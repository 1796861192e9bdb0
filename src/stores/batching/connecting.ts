// What connecting to a server needs, whatever its protocol: TLS, a time limit, and words for what went wrong.

import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { errorCode } from "../../base/thrown.ts";
import type { ClientTls } from "../../settings/store-address.ts";

/** TLS options for a connection to this host; undefined for a Unix socket. Throws if a file can't be read. */
export function readClientTls(tls: ClientTls, host: string | undefined): ConnectionOptions {
  const options: ConnectionOptions = {};
  if (tls.caFile !== undefined) options.ca = readFileSync(tls.caFile);
  if (tls.certFile !== undefined) options.cert = readFileSync(tls.certFile);
  if (tls.keyFile !== undefined) options.key = readFileSync(tls.keyFile);
  if (host !== undefined && isIP(host) === 0) options.servername = host;
  if (tls.skipsHostName) options.checkServerIdentity = () => undefined;
  return options;
}

/** There was no answer within the time limit. */
export class SilenceError extends Error {
  override readonly name = "SilenceError";
}

/** Rejects with SilenceError if `promise` takes longer than `ms` milliseconds. */
export async function withTimeLimit<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new SilenceError(`no answer within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, silence]);
  } finally {
    clearTimeout(timer);
  }
}

/** For a server that closed the connection. */
export const HUNG_UP = "closed the connection";

/** By the error's `code`. */
const CONNECT_TROUBLES: Readonly<Record<string, string>> = {
  ECONNREFUSED: "refuses connections: nothing listens there",
  ENOTFOUND: "can't be found: its host name has no address",
  EAI_AGAIN: "can't be found: the name server does not answer",
  ETIMEDOUT: "can't be reached in time",
  EHOSTUNREACH: "can't be reached: there is no route to its host",
  ENETUNREACH: "can't be reached: there is no route to its network",
  ECONNRESET: HUNG_UP,
  EPIPE: HUNG_UP,
  ENOENT: "can't be reached: the socket does not exist",
  EACCES: "can't be reached: this process has no permission for the socket",
  SELF_SIGNED_CERT_IN_CHAIN: "has an untrusted certificate: it is signed by an unknown authority",
  DEPTH_ZERO_SELF_SIGNED_CERT: "has an untrusted certificate: it is self-signed",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "has an untrusted certificate: it is signed by an unknown authority",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "has an untrusted certificate: it is signed by an unknown authority",
  CERT_HAS_EXPIRED: "has an expired certificate",
  ERR_TLS_CERT_ALTNAME_INVALID: "has a certificate for a different host name",
};

/** Texts by patterns of the error's message; the first match counts. */
export type MessageTroubles = readonly (readonly [RegExp, string])[];

/** What one kind of server adds. */
export interface OwnTroubles {
  /** Looked up before the texts about TLS. */
  readonly beforeTls: MessageTroubles;
  /** Looked up after the texts about TLS. */
  readonly afterTls: MessageTroubles;
  /** Another possible reason if TLS fails; empty, or begins with "; ". */
  readonly tlsHint: string;
}

/**
 * Why a server can't be reached, as the end of a sentence that begins with the server's name. For an error that did not
 * come from the server itself.
 */
export function describeConnectError(error: unknown, { beforeTls, afterTls, tlsHint }: OwnTroubles): string {
  if (error instanceof SilenceError) return `accepts connections but does not answer (${error.message})`;
  if (!(error instanceof Error)) return "can't be used";
  const code = errorCode(error) ?? "";
  const { message } = error;
  return (
    whyUnread(error, code) ??
    CONNECT_TROUBLES[code] ??
    troubleOf(message, beforeTls) ??
    whyNoTls(message, code, tlsHint) ??
    troubleOf(message, afterTls) ??
    `can't be used (${code || error.name})`
  );
}

/** The text of the first pattern that matches. */
export function troubleOf(text: string, troubles: MessageTroubles): string | undefined {
  return troubles.find(([pattern]) => pattern.test(text))?.[1];
}

function whyUnread(error: Error, code: string): string | undefined {
  if (!("syscall" in error && error.syscall === "open" && "path" in error)) return undefined;
  return `can't be used, because ${String(error.path)} can't be read (${code})`;
}

function whyNoTls(message: string, code: string, hint: string): string | undefined {
  if (/^ERR_O?SSL/.test(code)) return `can't be reached by TLS (${code})${hint}`;
  return /certificate/i.test(message) ? `has an untrusted certificate (${code || "no code"})` : undefined;
}
