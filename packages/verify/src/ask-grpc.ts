// Asks a service by ShouldRateLimit of Envoy's rate limit protocol, v3.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import { loadSync, type MethodDefinition } from "@grpc/proto-loader";
import type { Answer, Asked, Lost, Question } from "./call.ts";
import type { Plan } from "./plan.ts";

/** Connections to each server: shows a limit that is counted per connection. */
const CONNECTIONS = 2;
// Connections of its own, to every address that the name has.
const OPTIONS = {
  "grpc.use_local_subchannel_pool": 1,
  "grpc.service_config": JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
};
// The build puts it there; src is as far from it as dist.
const PROTO_ROOT = fileURLToPath(new URL("../dist/proto/", import.meta.url));

/** The server at `host:port`, with TLS at `https://host:port`. Throws if the plan's certificate can't be used. */
export function openGrpc(address: string, { certFile, keyFile }: Plan, now: () => number): Asked {
  const { path, requestSerialize, responseDeserialize } = shouldRateLimit();
  const read = (bytes: Buffer) => answerOf(responseDeserialize(bytes));
  const write = (question: Question) => requestSerialize(fieldsOf(question));
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
        client.makeUnaryRequest(path, write, read, question, { deadline: now() + timeoutMs }, (error, answer) => {
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
  readonly overall_code: Code;
  readonly statuses: readonly {
    readonly code: Code;
    readonly current_limit: { readonly requests_per_unit: number } | null;
    readonly limit_remaining: number;
    readonly duration_until_reset: { readonly seconds: string; readonly nanos: number } | null;
  }[];
}

/** A number of a later version of the protocol stays a number. */
type Code = "UNKNOWN" | "OK" | "OVER_LIMIT" | number;

function shouldRateLimit(): MethodDefinition<object, Response> {
  const options = { includeDirs: [PROTO_ROOT], keepCase: true, longs: String, enums: String, defaults: true };
  const services = loadSync("envoy/service/ratelimit/v3/rls.proto", options);
  const service = services["envoy.service.ratelimit.v3.RateLimitService"];
  return (service as unknown as { readonly ShouldRateLimit: MethodDefinition<object, Response> }).ShouldRateLimit;
}

function fieldsOf({ domain, descriptors, cost, isRefund }: Question): object {
  const refund = isRefund ? { hits_addend: { value: cost }, is_negative_hits: true } : {};
  return { domain, hits_addend: cost, descriptors: descriptors.map((entries) => ({ entries, ...refund })) };
}

function answerOf({ overall_code, statuses }: Response): Answer | Lost {
  if (overall_code !== "OK" && overall_code !== "OVER_LIMIT")
    return { outcome: "lost", why: "an answer without a code, which Envoy lets pass" };
  const told = statuses.map(({ code, current_limit, limit_remaining, duration_until_reset: reset }) => ({
    isOver: code === "UNKNOWN" ? undefined : code === "OVER_LIMIT",
    quota: current_limit?.requests_per_unit,
    remaining: current_limit === null ? undefined : limit_remaining,
    resetMs: current_limit === null || reset === null ? undefined : Number(reset.seconds) * 1_000 + reset.nanos / 1e6,
  }));
  return { outcome: overall_code === "OK" ? "granted" : "refused", told };
}
