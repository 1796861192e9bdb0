// ShouldRateLimit: decodes the request, has the limiter decide it, adds headers and metadata, encodes the answer.

import { RequestError } from "../../engine/base/errors.ts";
import type { LimitRequest } from "../../engine/domain/request.ts";
import type { LimitCall } from "../../engine/limiter/call.ts";
import type { UnaryReply } from "../unary.ts";
import { CallService, type CallServiceOptions } from "./call-service.ts";
import { decodeRequest, encodeDecision } from "./codec.ts";
import { addHeaders, type HeaderOptions } from "./headers.ts";
import { addMetadata, type MetadataMode } from "./metadata.ts";
import { WireWriter } from "./wire-writer.ts";

export interface ServiceOptions extends CallServiceOptions {
  readonly headers: HeaderOptions;
  readonly metadata: MetadataMode;
}

/** The handler of `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`. */
export class RateLimitService extends CallService {
  readonly #headers: HeaderOptions;
  readonly #metadata: MetadataMode;
  readonly #writer = new WireWriter();

  constructor(options: ServiceOptions) {
    super(options);
    this.#headers = options.headers;
    this.#metadata = options.metadata;
  }

  protected read(message: Buffer, into: LimitRequest): void {
    decodeRequest(message, into);
    checkRequest(into);
  }

  protected answer(call: LimitCall, reply: UnaryReply): void {
    addHeaders(call, this.#headers);
    addMetadata(call, this.#metadata);
    reply.ok(encodeDecision(call.decision, this.#writer));
  }
}

/** Throws RequestError for a request without a domain or descriptors. A descriptor without entries is allowed: Envoy sends such. */
export function checkRequest(request: LimitRequest): void {
  if (request.domain === "") {
    throw new RequestError("REQUEST_DOMAIN_EMPTY", "the request names no domain; expected the domain of a rules file");
  }
  if (request.descriptorCount === 0) {
    throw new RequestError("REQUEST_DESCRIPTORS_EMPTY", "the request has no descriptors; expected at least one");
  }
}
