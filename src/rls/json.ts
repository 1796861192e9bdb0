// POST /json: ShouldRateLimit for callers without gRPC. proto3 JSON becomes the bytes of a request, goes through the same
// handler as every call, and the answer's bytes become JSON and an HTTP status. Leaves the socket to the admin edge.

import { type DescMessage, type FileRegistry, fromBinary, fromJsonString, toBinary, toJson } from "@bufbuild/protobuf";
import { RequestError } from "../core/errors.ts";
import { invariant } from "../core/invariant.ts";
import { GrpcStatus, type UnaryHandler } from "../core/unary.ts";

/** An HTTP answer. Names of headers are as the decision wrote them. */
export interface JsonAnswer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

export interface JsonDoorOptions {
  readonly handler: UnaryHandler;
  /** Types of proto/. */
  readonly registry: FileRegistry;
  /** Told of errors that are ours; must not throw. */
  readonly onInternalError: (error: unknown) => void;
  /** Told of bodies that could not be understood; must not throw. */
  readonly onRequestError: (error: RequestError) => void;
}

/** The side door. */
export interface JsonDoor {
  /** Answers one request; never rejects. 200 or 429 with JSON, anything else with a sentence of plain text. */
  answer(body: Buffer): Promise<JsonAnswer>;
}

const REQUEST_TYPE = "envoy.service.ratelimit.v3.RateLimitRequest";
const RESPONSE_TYPE = "envoy.service.ratelimit.v3.RateLimitResponse";
const CODE_OVER_LIMIT = 2;
/** What was wrong with a body may quote it. */
const REASON_CHARS_MAX = 512;

const HTTP_STATUS: Readonly<Partial<Record<GrpcStatus, number>>> = {
  [GrpcStatus.invalidArgument]: 400,
  [GrpcStatus.resourceExhausted]: 429,
  [GrpcStatus.unavailable]: 503,
  [GrpcStatus.deadlineExceeded]: 504,
};

/** Builds the side door in front of `handler`. */
export function createJsonDoor(options: JsonDoorOptions): JsonDoor {
  const requestType = messageType(options.registry, REQUEST_TYPE);
  const responseType = messageType(options.registry, RESPONSE_TYPE);
  return {
    async answer(body) {
      try {
        const outcome = await ask(options.handler, requestBytes(requestType, body));
        if (outcome.status !== GrpcStatus.ok) return plainText(HTTP_STATUS[outcome.status] ?? 500, outcome.text);
        return jsonAnswer(responseType, outcome.message);
      } catch (error) {
        if (error instanceof RequestError) {
          options.onRequestError(error);
          return plainText(400, `${error.code}: ${error.message}`);
        }
        options.onInternalError(error);
        return plainText(500, "SERVICE_INTERNAL: the request could not be answered; the server's log has the cause");
      }
    },
  };
}

function messageType(registry: FileRegistry, name: string): DescMessage {
  const type = registry.getMessage(name);
  invariant(type !== undefined, `the registry knows ${name}`);
  return type;
}

// Unknown fields, duplicate fields and anything that is no object are refused; both spellings of field names are read.
function requestBytes(type: DescMessage, body: Buffer): Buffer {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch (error) {
    throw new RequestError("REQUEST_BODY", `expected a body in UTF-8: ${reasonOf(error)}`);
  }
  if (text.trim() === "")
    throw new RequestError("REQUEST_BODY", "expected a RateLimitRequest as JSON, got an empty body");
  try {
    return Buffer.from(toBinary(type, fromJsonString(type, text)));
  } catch (error) {
    throw new RequestError("REQUEST_BODY", `expected a RateLimitRequest as JSON: ${reasonOf(error)}`);
  }
}

type Outcome =
  | { readonly status: typeof GrpcStatus.ok; readonly message: Uint8Array }
  | { readonly status: Exclude<GrpcStatus, typeof GrpcStatus.ok>; readonly text: string };

function ask(handler: UnaryHandler, message: Buffer): Promise<Outcome> {
  return new Promise((resolve) => {
    // HTTP carries no deadline: the store's own bounds the wait.
    handler.handle(message, Number.POSITIVE_INFINITY, {
      ok: (answer) => resolve({ status: GrpcStatus.ok, message: Uint8Array.from(answer) }),
      fail: (status, text) => {
        invariant(status !== GrpcStatus.ok, "a call does not fail with status OK");
        resolve({ status, text });
      },
    });
  });
}

// What is read here of a response; fromBinary makes it so for RESPONSE_TYPE.
interface ResponseFields {
  readonly overallCode: number;
  readonly responseHeadersToAdd: readonly { readonly key: string; readonly value: string }[];
}

function jsonAnswer(type: DescMessage, message: Uint8Array): JsonAnswer {
  const response = fromBinary(type, message);
  const { overallCode, responseHeadersToAdd } = response as unknown as ResponseFields;
  const headers: Record<string, string> = {};
  for (const header of responseHeadersToAdd) headers[header.key] = header.value;
  headers["content-type"] = "application/json";
  return {
    status: overallCode === CODE_OVER_LIMIT ? 429 : 200,
    headers,
    body: `${JSON.stringify(toJson(type, response))}\n`,
  };
}

function plainText(status: number, text: string): JsonAnswer {
  return { status, headers: { "content-type": "text/plain; charset=utf-8" }, body: `${text}\n` };
}

function reasonOf(error: unknown): string {
  const reason = error instanceof Error ? error.message : String(error);
  return reason.slice(0, REASON_CHARS_MAX);
}
