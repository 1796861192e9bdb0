// A sample limiter behind a real gRPC server for each of its processes.

import * as grpc from "@grpc/grpc-js";
import type { Plan } from "../../packages/verify/src/plan.ts";
import { endWithTest } from "./ends.ts";
import { loadProto } from "./load-proto.ts";
import { SampleLimiter, WRITE_MS, type Wrong } from "./sample-limiter.ts";

interface Request {
  readonly descriptors: readonly {
    readonly entries: readonly { readonly key: string; readonly value: string }[];
    readonly is_negative_hits: boolean;
  }[];
  readonly hits_addend: number;
}

/** Serves the plan's limits, with as many processes as the plan has servers; resolves to the plan with their addresses. */
export async function serveSample(plan: Plan, wrong?: Wrong): Promise<Plan> {
  const limiter = new SampleLimiter(plan, wrong);
  const servers = await Promise.all(plan.servers.map((_, process) => startProcess(limiter, process)));
  return { ...plan, servers };
}

async function startProcess(limiter: SampleLimiter, process: number): Promise<string> {
  const server = new grpc.Server();
  const peers = new Map<string, number>();
  const definition = loadProto()["envoy.service.ratelimit.v3.RateLimitService"] as unknown as grpc.ServiceDefinition;
  server.addService(definition, {
    ShouldRateLimit: (call: grpc.ServerUnaryCall<Request, object>, done: grpc.sendUnaryData<object>) => {
      const peer = call.getPeer();
      const connection = peers.get(peer) ?? peers.size;
      peers.set(peer, connection);
      const { descriptors, hits_addend } = call.request;
      const decision = limiter.decide(
        {
          descriptors: descriptors.map(({ entries }) => entries.map(({ key, value }) => `${key}=${value}`).join(",")),
          cost: Math.max(1, hits_addend),
          isRefund: descriptors.some((one) => one.is_negative_hits),
          process,
          connection,
        },
        performance.timeOrigin + performance.now(),
      );
      const answer = {
        overall_code: decision.isGranted ? "OK" : "OVER_LIMIT",
        statuses: decision.statuses.map(({ isOver, quota, remaining, resetMs }) => ({
          code: isOver ? "OVER_LIMIT" : "OK",
          current_limit: { requests_per_unit: quota, unit: "SECOND" },
          limit_remaining: remaining,
          duration_until_reset: { seconds: Math.floor(resetMs / 1_000), nanos: Math.round((resetMs % 1_000) * 1e6) },
        })),
      };
      if (decision.later === undefined) done(null, answer);
      else {
        setTimeout(() => {
          decision.later?.();
          done(null, answer);
        }, WRITE_MS);
      }
    },
  });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  endWithTest(async () => server.forceShutdown());
  return `127.0.0.1:${port}`;
}
