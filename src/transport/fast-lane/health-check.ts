// grpc.health.v1.Health/Check on bytes, so that probes depend on the fast lane alone.

import { GrpcStatus, type UnaryHandler, type UnaryReply } from "../../core/unary.ts";
import { HEALTH_SERVICE } from "../load-proto.ts";

export const HEALTH_CHECK_PATH = `/${HEALTH_SERVICE}/Check`;

/** What knows the state of services. */
interface HealthSource {
  /** Whether the service may be sent calls; undefined for an unknown name. */
  isServing(service: string): boolean | undefined;
}

// HealthCheckResponse: field 1 is SERVING (1) or NOT_SERVING (2).
const SERVING = Uint8Array.of(0x08, 1);
const NOT_SERVING = Uint8Array.of(0x08, 2);
const SERVICE_TAG = 0x0a;

export class HealthCheck implements UnaryHandler {
  readonly #source: HealthSource;

  constructor(source: HealthSource) {
    this.#source = source;
  }

  handle(message: Buffer, _deadlineUs: number, reply: UnaryReply): void {
    const service = serviceOf(message);
    if (service === undefined) {
      reply.fail(GrpcStatus.internal, "Error deserializing request");
      return;
    }
    const isServing = this.#source.isServing(service);
    if (isServing === undefined) reply.fail(GrpcStatus.notFound, "unknown service name");
    else reply.ok(isServing ? SERVING : NOT_SERVING);
  }
}

// HealthCheckRequest has one text field; names of services have less than 128 bytes. If it is sent twice, the last one counts.
function serviceOf(message: Buffer): string | undefined {
  let service = "";
  let at = 0;
  while (at < message.length) {
    if (message[at] !== SERVICE_TAG) return undefined;
    const length = message[at + 1];
    if (length === undefined || length > 127 || at + 2 + length > message.length) return undefined;
    service = message.toString("utf8", at + 2, at + 2 + length);
    at += 2 + length;
  }
  return service;
}
