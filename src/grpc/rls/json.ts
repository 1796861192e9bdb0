// POST /json: ShouldRateLimit for callers without gRPC. The body in proto3 JSON becomes the bytes of a request, which
// the handler of gRPC calls answers; the answer becomes JSON and an HTTP status. operate/http serves the socket.

import type * as Protobuf from "@bufbuild/protobuf";
import type { DescMessage } from "@bufbuild/protobuf";
import { RequestError } from "../../base/errors.ts";
import { invariant } from "../../base/invariant.ts";
import { errorMessage } from "../../base/thrown.ts";
import { GrpcStatus, type HttpCaller, type UnaryHandler } from "../unary.ts";
import { CODE_OVER_LIMIT } from "./codec.ts";

/** An HTTP answer. The case of header names is as the decision has it. */
export interface JsonAnswer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

/** The messages of proto/ and the package that reads them, which the first call loads. */
interface ProtoTypes {
  readonly protobuf: () => typeof Protobuf;
  readonly messageType: (name: string) => DescMessage;
}

interface JsonEndpointOptions {
  readonly handler: UnaryHandler;
  readonly proto: ProtoTypes;
  /** Most requests at once whose bodies are there; more are answered with 503. */
  readonly inFlightMax: number;
  /** Called for each request beyond `inFlightMax`; must not throw. */
  readonly onOverload: () => void;
  /** Called with errors that are bugs of this service; must not throw. */
  readonly onInternalError: (error: unknown) => void;
  /** Called with bodies that could not be understood; must not throw. */
  readonly onRequestError: (error: RequestError) => void;
}

/** `/json`: the rate limit call in JSON over HTTP. */
interface JsonEndpoint {
  /**
   * Answers one request: 200 or 429 with JSON, other statuses with a sentence of plain text. Rejects only if `readBody`
   * rejects.
   */
  answer(readBody: () => Promise<Buffer>, caller?: HttpCaller): Promise<JsonAnswer>;
}

/**
 * Longest body in bytes. Reading one takes up to 25 ms, during which no other call is answered
 * (test/fault/long-turns.long.test.ts).
 */
export const JSON_BYTES_MAX = 32_768;

const REQUEST_TYPE = "envoy.service.ratelimit.v3.RateLimitRequest";
const RESPONSE_TYPE = "envoy.service.ratelimit.v3.RateLimitResponse";
/** Bounds the parser's message, which may quote the body. */
const REASON_CHARS_MAX = 512;

const HTTP_STATUS: Readonly<Partial<Record<GrpcStatus, number>>> = {
  [GrpcStatus.invalidArgument]: 400,
  [GrpcStatus.resourceExhausted]: 429,
  [GrpcStatus.unavailable]: 503,
  [GrpcStatus.deadlineExceeded]: 504,
};

/** The HTTP status of an answer, by its gRPC status. */
export function httpStatusOf({ status, isRefused }: { readonly status: number; readonly isRefused?: boolean }): number {
  if (status === GrpcStatus.ok) return isRefused === true ? 429 : 200;
  return HTTP_STATUS[status as GrpcStatus] ?? 500;
}

const WHO_STAYS: HttpCaller = { isGone: () => false };

/** Builds the JSON endpoint in front of `handler`. */
export function createJsonEndpoint(options: JsonEndpointOptions): JsonEndpoint {
  const { proto, handler, inFlightMax } = options;
  const decide = async (body: Buffer, caller: HttpCaller): Promise<JsonAnswer> => {
    try {
      const outcome = await ask(handler, requestBytes(proto, body), caller);
      return outcome instanceof Uint8Array ? jsonAnswer(proto, outcome) : outcome;
    } catch (error) {
      if (error instanceof RequestError) {
        options.onRequestError(error);
        return plainText(400, `${error.code}: ${error.message}`);
      }
      options.onInternalError(error);
      return plainText(500, "SERVICE_INTERNAL: the request could not be answered; see the server's log");
    }
  };
  let inFlight = 0;
  return {
    async answer(readBody, caller = WHO_STAYS) {
      // A request counts once its body has come, so callers without one keep nobody out.
      const body = await readBody();
      if (inFlight >= inFlightMax) {
        options.onOverload();
        return plainText(503, `SERVICE_OVERLOADED: more than ${inFlightMax} requests to /json under way`);
      }
      inFlight++;
      try {
        return await decide(body, caller);
      } finally {
        inFlight--;
      }
    },
  };
}

// Refuses unknown fields, duplicate fields and bodies that are no object; accepts both spellings of field names.
function requestBytes({ protobuf, messageType }: ProtoTypes, body: Buffer): Buffer {
  const { fromJsonString, toBinary } = protobuf();
  const type = messageType(REQUEST_TYPE);
  const text = textOfBody(body);
  try {
    return Buffer.from(toBinary(type, fromJsonString(type, text)));
  } catch (error) {
    throw new RequestError("REQUEST_BODY", `expected a RateLimitRequest as JSON: ${reasonOf(error)}`);
  }
}

function textOfBody(body: Buffer): string {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch (error) {
    throw new RequestError("REQUEST_BODY", `expected a body in UTF-8: ${reasonOf(error)}`);
  }
  if (text.trim() !== "") return text;
  throw new RequestError("REQUEST_BODY", "expected a RateLimitRequest as JSON, got an empty body");
}

/** The bytes of the handler's answer, or an HTTP answer that says why it has none. */
function ask(handler: UnaryHandler, message: Buffer, caller: HttpCaller): Promise<Uint8Array | JsonAnswer> {
  return new Promise((resolve) => {
    // HTTP has no deadline; the store's own deadline bounds the wait.
    handler.handle(message, Number.POSITIVE_INFINITY, {
      traceparent: caller.traceparent,
      get isGone() {
        return caller.isGone();
      },
      ok: (answer) => resolve(Uint8Array.from(answer)),
      fail(status, text) {
        invariant(status !== GrpcStatus.ok, "a call does not fail with status OK");
        resolve(plainText(httpStatusOf({ status }), text));
      },
    });
  });
}

// The fields of a response that are read here, as fromBinary names them for RESPONSE_TYPE.
interface ResponseFields {
  readonly overallCode: number;
  readonly responseHeadersToAdd: readonly { readonly key: string; readonly value: string }[];
}

function jsonAnswer({ protobuf, messageType }: ProtoTypes, message: Uint8Array): JsonAnswer {
  const { fromBinary, toJson } = protobuf();
  const type = messageType(RESPONSE_TYPE);
  const response = fromBinary(type, message);
  const { overallCode, responseHeadersToAdd } = response as unknown as ResponseFields;
  const headers: Record<string, string> = {};
  for (const header of responseHeadersToAdd) headers[header.key] = header.value;
  headers["content-type"] = "application/json";
  return {
    status: httpStatusOf({ status: GrpcStatus.ok, isRefused: overallCode === CODE_OVER_LIMIT }),
    headers,
    body: `${JSON.stringify(toJson(type, response))}\n`,
  };
}

function plainText(status: number, text: string): JsonAnswer {
  return { status, headers: { "content-type": "text/plain; charset=utf-8" }, body: `${text}\n` };
}

// The message may quote the body, line feeds and all; a reason is one line.
function reasonOf(error: unknown): string {
  const reason = errorMessage(error).slice(0, REASON_CHARS_MAX);
  return reason.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
