// Asks a service by ShouldRateLimit of Envoy's rate limit protocol, v3.

import { readFileSync } from "node:fs";
import { create, createFileRegistry, type DescMessage, fromBinary, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import type { Answer, Asked, Lost, Question } from "./call.ts";
import type { Plan } from "./plan.ts";

/** Connections to each server: shows a limit that is counted per connection. */
const CONNECTIONS = 2;
// Connections of its own, to every address that the name has.
const OPTIONS = {
  "grpc.use_local_subchannel_pool": 1,
  "grpc.service_config": JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
};
const PACKAGE = "envoy.service.ratelimit.v3";
const PATH = `/${PACKAGE}.RateLimitService/ShouldRateLimit`;
// proto/ is as many levels above src/tools/verify as above dist/tools/verify.
const DESCRIPTORS = new URL("../../../proto/descriptors.binpb", import.meta.url);

/** The server at `host:port`, with TLS at `https://host:port`. Throws if the plan's certificate can't be used. */
export function openGrpc(address: string, { certFile, keyFile }: Plan, now: () => number): Asked {
  const { write, read } = messages();
  const host = address.replace(/^https:\/\//, "");
  const security =
    host === address ? credentials.createInsecure() : credentials.createSsl(null, pem(keyFile), pem(certFile));
  const clients = Array.from({ length: CONNECTIONS }, () => new Client(`dns:${host}`, security, OPTIONS));
  let next = 0;
  return {
    name: address,
    ask: (question, timeoutMs) =>
      new Promise((resolve) => {
        const client = clients[next++ % CONNECTIONS] as Client;
        client.makeUnaryRequest(PATH, write, read, question, { deadline: now() + timeoutMs }, (error, answer) => {
          if (error === null && answer !== undefined) resolve(answer);
          else resolve({ outcome: "lost", why: error === null ? "no message" : whyOf(error) });
        });
      }),
    reach: async (timeoutMs) => {
      const reached = clients.map(
        (client) => new Promise<Error | undefined>((resolve) => client.waitForReady(now() + timeoutMs, resolve)),
      );
      return (await Promise.all(reached)).every((error) => error === undefined);
    },
    close: () => {
      for (const client of clients) client.close();
    },
  };
}

function pem(file: string | undefined): Buffer | null {
  return file === undefined ? null : readFileSync(file);
}

/** Equal troubles get equal words. */
function whyOf({ code, details }: ServiceError): string {
  if (code === status.DEADLINE_EXCEEDED) return "DEADLINE_EXCEEDED";
  return `${status[code]}: ${details.replace(/\s*\(\d{4}-\S*\)|\s*Resolution note:.*/g, "")}`;
}

/** The fields read of a RateLimitResponse. */
interface Response {
  /** 1: OK, 2: OVER_LIMIT. */
  readonly overallCode: number;
  readonly statuses: readonly {
    readonly code: number;
    readonly currentLimit?: { readonly requestsPerUnit: number };
    readonly limitRemaining: number;
    readonly durationUntilReset?: { readonly seconds: bigint; readonly nanos: number };
  }[];
}

function messages(): { write: (question: Question) => Buffer; read: (bytes: Buffer) => Answer | Lost } {
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(DESCRIPTORS)));
  const request = registry.getMessage(`${PACKAGE}.RateLimitRequest`) as DescMessage;
  const response = registry.getMessage(`${PACKAGE}.RateLimitResponse`) as DescMessage;
  return {
    write: (question) => Buffer.from(toBinary(request, create(request, fieldsOf(question)))),
    read: (bytes) => answerOf(fromBinary(response, bytes) as unknown as Response),
  };
}

function fieldsOf({ domain, descriptors, cost, isRefund }: Question): Record<string, unknown> {
  const refund = isRefund ? { hitsAddend: BigInt(cost), isNegativeHits: true } : {};
  return { domain, hitsAddend: cost, descriptors: descriptors.map((entries) => ({ entries, ...refund })) };
}

function answerOf({ overallCode, statuses }: Response): Answer | Lost {
  if (overallCode !== 1 && overallCode !== 2)
    return { outcome: "lost", why: "an answer without a code, which Envoy lets pass" };
  const told = statuses.map(({ code, currentLimit, limitRemaining, durationUntilReset: reset }) => ({
    isOver: code === 0 ? undefined : code === 2,
    quota: currentLimit?.requestsPerUnit,
    remaining: currentLimit === undefined ? undefined : limitRemaining,
    resetMs: currentLimit && reset && Number(reset.seconds) * 1_000 + reset.nanos / 1e6,
  }));
  return { outcome: overallCode === 1 ? "granted" : "refused", told };
}
