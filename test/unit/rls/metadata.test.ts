// What is remembered of the metadata of refusals is told again only while it is true.

import { expect, test } from "vitest";
import { encodeDecision } from "../../../src/rls/codec.ts";
import { addMetadata } from "../../../src/rls/metadata.ts";
import { WireWriter } from "../../../src/rls/wire-writer.ts";
import { LimiterRig } from "../../support/limiter-rig.ts";

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

test("the same refusal is told in the same bytes, from memory or not", () => {
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
