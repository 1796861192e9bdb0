// Messages of every kind of damage through the whole service: each is answered in good form or refused as the caller's
// mistake; none is a fault of ours.

import { type DescMessage, fromBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test } from "vitest";
import { RateLimitService } from "../../src/grpc/rls/service.ts";
import { loadRegistry } from "../../src/grpc/transport/load-proto.ts";
import { GrpcStatus } from "../../src/grpc/unary.ts";
import { HEADER_DIALECTS } from "../../src/settings/header-dialects.ts";
import { BudgetsRig } from "../support/budgets.ts";
import { LimiterRig } from "../support/limiter-rig.ts";
import { holdFields, requestFields } from "../support/request-arbitrary.ts";
import { runs, runsMs } from "../support/runs.ts";
import { bytesField } from "../support/wire.ts";

const RULES = `
domain: edge
global_limit: { requests_per_unit: 1000, unit: second }
descriptors:
  - { key: remote_address, cost: { entry: w, max: 9 }, rate_limit: { tokens_per_second: 1, burst: 5 } }
  - { key: remote_address, value: "1*", quota_mode: true, detailed_metric: true, rate_limit: { requests_per_unit: 5, unit: day } }
  - { key: schlüssel, match: { regex: "." }, post_paid: true, rate_limit: { requests_per_unit: 5, unit: hour } }
`;
const registry = loadRegistry();
const response = registry.getMessage("envoy.service.ratelimit.v3.RateLimitResponse") as DescMessage;
const edge = bytesField(1, "edge");

// Promise(input): Damaged gRPC messages are answered or rejected as the caller's error.
test.each([
  { name: "its own way", compatible: false },
  { name: "the compatibility mode", compatible: true },
])(
  "damaged messages are answered or refused as mistakes of callers, in $name",
  ({ compatible }) => {
    const rig = new LimiterRig(RULES, { compatible });
    const service = new RateLimitService({
      limiter: rig.limiter,
      headers: { dialects: HEADER_DIALECTS, limitHeader: "a", remainingHeader: "b", resetHeader: "c" },
      metadata: "full",
      onInternalError: (error) => {
        throw error;
      },
      onRequestError: () => undefined,
    });
    const damage = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 3 });
    const answered = { well: 0, refused: 0 };
    fc.assert(
      fc.property(requestFields, damage, fc.boolean(), (fields, hits, isCut) => {
        const whole = Buffer.concat([...fields, edge]);
        for (const [at, byte] of hits) whole[at % whole.length] = byte;
        const message = isCut ? whole.subarray(0, Math.floor(whole.length / 2)) : whole;
        let replies = 0;
        service.handle(message, Number.POSITIVE_INFINITY, {
          ok: (answer) => {
            replies++;
            answered.well++;
            fromBinary(response, answer);
          },
          fail: (status, text) => {
            replies++;
            answered.refused++;
            expect([status, text]).toEqual([GrpcStatus.invalidArgument, expect.stringMatching(/^REQUEST_[A-Z_]+: /)]);
          },
        });
        expect(replies).toBe(1);
      }),
      { numRuns: runs(600) },
    );
    expect(Math.min(answered.well, answered.refused)).toBeGreaterThan(runs(20));
  },
  runsMs(20_000),
);

// Promise(input): Damaged gRPC messages are answered or rejected as the caller's error.
test.each(["reserveHandler", "settleHandler"] as const)(
  "damaged messages to Budgets are answered or refused as mistakes of callers: %s",
  (name) => {
    const rules = `domain: edge
descriptors:
  - key: remote_address
    rate_limit: { tokens_per_second: 1, burst: 4294967295 }
    hold: { id: id, ttl: 60s }
    descriptors: [{ key: remote_address }]
`;
    const handler = new BudgetsRig(new LimiterRig(rules))[name];
    const type = registry.getMessage(`headgate.v1.${name === "reserveHandler" ? "Reserve" : "Settle"}Response`);
    const matching = bytesField(2, Buffer.concat([bytesField(1, "remote_address"), bytesField(2, "1")]));
    const damage = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 2 });
    const statuses = new Map<GrpcStatus, number>();
    fc.assert(
      fc.property(holdFields, damage, fc.boolean(), (fields, hits, isCut) => {
        const whole = Buffer.concat([matching, ...fields, bytesField(3, "id"), edge]);
        for (const [at, byte] of hits) whole[at % whole.length] = byte;
        const message = isCut ? whole.subarray(0, Math.floor(whole.length / 2)) : whole;
        let replies = 0;
        const count = (status: GrpcStatus) => {
          replies++;
          statuses.set(status, (statuses.get(status) ?? 0) + 1);
        };
        handler.handle(message, Number.POSITIVE_INFINITY, {
          ok: (answer) => {
            count(GrpcStatus.ok);
            fromBinary(type as DescMessage, answer);
          },
          fail: (status, text) => {
            count(status);
            expect(text).toMatch(/^REQUEST_[A-Z_]+: /);
          },
        });
        expect(replies).toBe(1);
      }),
      { numRuns: runs(600) },
    );
    const { ok, invalidArgument, failedPrecondition } = GrpcStatus;
    expect([...statuses.keys()].sort((a, b) => a - b)).toEqual([ok, invalidArgument, failedPrecondition]);
  },
  runsMs(20_000),
);
