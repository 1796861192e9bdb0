// Why a server can't be reached, as the end of a sentence that begins with the server's name. The store describes what the server itself says.

import { errorCode } from "../../engine/base/thrown.ts";
import { SilenceError } from "./time-limit.ts";

/** For a server that closed the connection. */
export const HUNG_UP = "closed the connection";

/** By the error's `code`. */
const CONNECT_TROUBLES: Readonly<Record<string, string>> = {
  ECONNREFUSED: "refuses connections: nothing listens there",
  ENOTFOUND: "can't be found: its host name has no address",
  EAI_AGAIN: "can't be found: the name service does not answer",
  ETIMEDOUT: "can't be reached in time",
  EHOSTUNREACH: "can't be reached: there is no route to its host",
  ENETUNREACH: "can't be reached: there is no route to its network",
  ECONNRESET: HUNG_UP,
  EPIPE: HUNG_UP,
  ENOENT: "can't be reached: the socket does not exist",
  EACCES: "can't be reached: this process has no permission for the socket",
  SELF_SIGNED_CERT_IN_CHAIN: "shows a certificate that is not trusted: it is signed by an unknown authority",
  DEPTH_ZERO_SELF_SIGNED_CERT: "shows a certificate that is not trusted: it is signed by itself",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "shows a certificate that is not trusted: it is signed by an unknown authority",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "shows a certificate that is not trusted: it is signed by an unknown authority",
  CERT_HAS_EXPIRED: "shows a certificate that has expired",
  ERR_TLS_CERT_ALTNAME_INVALID: "shows a certificate for another host name",
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

/** The end of the sentence, for an error that did not come from the server itself. */
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
  return /certificate/i.test(message) ? `shows a certificate that is not trusted (${code || "no code"})` : undefined;
}
