// Decides who may use pages that reveal or change callers' buckets: holders of a token, or, if none is configured,
// callers on this host. The reasons: docs/decisions/0010-who-may-use-admin-pages.md.

import type { IncomingMessage } from "node:http";
import { forwardedHeaderOf, isLoopback, isLoopbackHost, whyCrossSite } from "./cross-site.ts";
import { type HttpAnswer, text, withHeaders } from "./page-server.ts";
import type { Tokens } from "./tokens.ts";

/** Who asked: `who` is a token's name or `local`, `peer` the address that the caller's socket shows. */
export interface Caller {
  readonly who: string;
  readonly peer: string;
}

type Judgement =
  | { readonly caller: Caller }
  | { readonly refusal: HttpAnswer; readonly peer: string; readonly reason: string };

/** Judges one request by its headers and its socket's address; its body is not read. */
export function judgeAccess(request: IncomingMessage, tokens: Tokens): Judgement {
  const peer = request.socket.remoteAddress ?? "unknown";
  if (tokens.isAsked) return judgeToken(request, tokens, peer);
  const reason = whyNotLocal(request, peer);
  if (reason === undefined) return { caller: { who: "local", peer } };
  const says = `403 this page is open to callers on the same host only, and this request ${reason}; set ADMIN_TOKEN or ADMIN_TOKEN_FILE and send the token as \`authorization: Bearer TOKEN\`, or call from the host itself (kubectl exec, kubectl port-forward)\n`;
  return { refusal: text(403, says), peer, reason };
}

function judgeToken(request: IncomingMessage, tokens: Tokens, peer: string): Judgement {
  const given = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? "")?.[1];
  const name = given === undefined ? undefined : tokens.nameOf(given);
  if (name !== undefined) return { caller: { who: name, peer } };
  const reason = given === undefined ? "carries no token" : "carries an invalid token";
  const answer = text(
    401,
    `401 this page wants \`authorization: Bearer TOKEN\` with a token of ADMIN_TOKEN or ADMIN_TOKEN_FILE; this request ${reason}\n`,
  );
  return { refusal: withHeaders(answer, { "www-authenticate": 'Bearer realm="headgate"' }), peer, reason };
}

// An address of this host is not enough: a browser on this host may send requests for a page of another site.
function whyNotLocal(request: IncomingMessage, peer: string): string | undefined {
  if (!isLoopback(peer)) return "comes from another";
  const forwarded = forwardedHeaderOf(request);
  if (forwarded !== undefined) return `was passed on by a proxy (${forwarded})`;
  if (!isLoopbackHost(request.headers.host)) return "names another host";
  return whyCrossSite(request);
}
