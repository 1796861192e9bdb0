// What is remembered of the metadata of refusals is told again only while it is true.

import { expect, test } from "vitest";
import { WireWriter } from "../../../../src/base/wire.ts";
import { compileRules } from "../../../../src/engine/rules/compile.ts";
import { encodeDecision } from "../../../../src/grpc/rls/codec.ts";
import { addHeaders } from "../../../../src/grpc/rls/headers.ts";
import { addMetadata } from "../../../../src/grpc/rls/metadata.ts";
import { LimiterRig } from "../../../support/limiter-rig.ts";
import { resourceFile } from "../../../support/resources.ts";

const RULES = `
domain: edge
descriptors:
  - { key: fixed, rate_limit: { requests_per_unit: 1, unit: minute, algorithm: fixed_window } }
  - { key: never, rate_limit: { requests_per_unit: 1, unit: minute, algorithm: fixed_window } }
`;

function ask(rig: LimiterRig, key: string, hits = 1) {
  const call = rig.begin([{ entries: { [key]: "a" } }], hits, "edge");
  rig.limiter.decide(call, Number.POSITIVE_INFINITY);
  addMetadata(call, "notable");
  const bytes = Buffer.from(encodeDecision(call.decision, new WireWriter())).toString("hex");
  return { metadata: call.decision.metadata, bytes };
}

test("the same refusal has the same bytes, from memory or not", () => {
  const rig = new LimiterRig(RULES);
  expect(ask(rig, "fixed").metadata).toBeUndefined();
  const [first, second, third] = [ask(rig, "fixed"), ask(rig, "fixed"), ask(rig, "fixed")];
  expect(first.metadata).toMatchObject({ code: "OVER_LIMIT", remaining: 0, reason: "fixed_window_exceeded" });
  expect(second.metadata).toBe(first.metadata);
  expect([second.bytes, third.bytes]).toEqual([first.bytes, first.bytes]);
});

test("a refusal after some time tells the time that is left then", () => {
  const rig = new LimiterRig(RULES);
  ask(rig, "fixed");
  const first = ask(rig, "fixed");
  rig.clock.advanceUs(20_000_000);
  const later = ask(rig, "fixed");
  // A rounding of ticks may add a second.
  const passed = Number(first.metadata?.reset_seconds) - Number(later.metadata?.reset_seconds);
  expect([19, 20]).toContain(passed);
  expect(later.bytes).not.toBe(first.bytes);
});

test("a gateway's limit, which has no name, is described in words, in headers too", () => {
  const rig = new LimiterRig("domain: none");
  const route = "httproute/default/shop/rule/0/match/0/shop_example_com";
  const rate_limit = { unit: "HOUR", requests_per_unit: 0 };
  const descriptors = [{ key: route, value: route, descriptors: [{ key: "rule-0-match-0", rate_limit }] }];
  const resource = resourceFile({ name: "edge", domain: "edge", descriptors });
  const { ruleSet } = compileRules([resource], { statsBook: rig.statsBook });
  if (ruleSet !== undefined) rig.limiter.useRules(ruleSet);
  const call = rig.begin([{ entries: { [route]: route, "rule-0-match-0": "ann" } }], 0, "edge");
  rig.limiter.decide(call, Number.POSITIVE_INFINITY);
  addMetadata(call, "notable");
  const name = "route default/shop shop.example.com, rule 0, each value of match 0";
  expect(call.decision.metadata).toMatchObject({ name, rule: `edge/${route}/rule-0-match-0` });
  const names = { limitHeader: "l", remainingHeader: "r", resetHeader: "s" };
  addHeaders(call, { dialects: ["structured"], ...names });
  expect(call.decision.headers[0]).toMatchObject({ key: "RateLimit-Policy", value: `"${name}";q=0;w=3600` });
});

test("limits and kinds of refusal do not share what is remembered", () => {
  const rig = new LimiterRig(RULES);
  ask(rig, "fixed");
  expect(ask(rig, "fixed").metadata?.path).toBe("fixed");
  expect(ask(rig, "never", 2).metadata).toMatchObject({ path: "never", can_never_pass: true, remaining: 1 });
  ask(rig, "never");
  const over = ask(rig, "never").metadata;
  expect(over).toMatchObject({ path: "never", remaining: 0 });
  expect(over).not.toHaveProperty("can_never_pass");
});
