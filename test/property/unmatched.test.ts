// Nothing passes without a limit unseen: over generated rules, calls and reloads, every descriptor that is answered without a
// limit, and that no rule names as unlimited, is counted for its domain.

import fc from "fast-check";
import { expect, test } from "vitest";
import { addMetadata } from "../../src/grpc/rls/metadata.ts";
import { type AskedDescriptor, LimiterRig } from "../support/limiter-rig.ts";
import { runs } from "../support/runs.ts";

/** What a status shows of a rule that is unlimited. */
const UNLIMITED = 4_294_967_295;

const key = fc.constantFrom("plan", "key", "weight");
const value = fc.constantFrom("free", "gold", "5", "");

/** A rule's limit: none, one, one with a cost entry, or none on purpose. */
const limits = fc.constantFrom<object>(
  {},
  { rate_limit: { requests_per_unit: 1_000, unit: "hour" } },
  { rate_limit: { requests_per_unit: 1_000, unit: "hour" }, cost: { entry: "weight" } },
  { rate_limit: { unlimited: true } },
);

const rule = (children: fc.Arbitrary<object[]>) =>
  fc
    .record({ key: fc.constantFrom("plan", "key"), match: fc.option(value, { nil: undefined }), limits, children })
    .map(({ key: name, match, limits: own, children: below }) => ({
      key: name,
      ...(match === undefined || match === "" ? {} : { value: match }),
      ...own,
      ...(below.length === 0 ? {} : { descriptors: below }),
    }));
const uniqueRules = (each: fc.Arbitrary<object>) =>
  fc.uniqueArray(each, {
    maxLength: 3,
    selector: (item) => JSON.stringify([(item as { key: string }).key, (item as { value?: string }).value]),
  });
const tree = uniqueRules(rule(uniqueRules(rule(fc.constant([])))));

const descriptor: fc.Arbitrary<AskedDescriptor> = fc
  .array(fc.tuple(key, value), { maxLength: 3 })
  .map((entries) => ({ entries: Object.fromEntries(entries) }));
const call = fc.record({
  domain: fc.constantFrom("edge", "edge", "edge", "egde"),
  descriptors: fc.array(descriptor, { minLength: 1, maxLength: 4 }),
});

// Promise(operators): `ask`, `explain`, `/config`, metrics and the log tell of descriptors that met no rule.
test("counts every descriptor that is answered without a limit, over reloads, and no other", () => {
  const history = fc.array(fc.record({ tree, calls: fc.array(call, { maxLength: 6 }) }), {
    minLength: 1,
    maxLength: 3,
  });
  fc.assert(
    fc.property(history, (rounds) => {
      const expected = new Map<string, number>();
      const rig = new LimiterRig("domain: edge");
      for (const { tree: rules, calls } of rounds) {
        rig.useRules(JSON.stringify({ domain: "edge", descriptors: rules }));
        for (const { domain, descriptors } of calls) {
          const { statuses } = rig.ask(descriptors, 0, domain);
          const open = statuses.filter(({ limit, remaining }) => limit === undefined && remaining !== UNLIMITED);
          if (open.length > 0) expected.set(domain, (expected.get(domain) ?? 0) + open.length);
        }
      }
      const counted = [...rig.observer.unmatched.entries()].map((each) => [each.domain, each.descriptors] as const);
      expect(new Map(counted)).toEqual(expected);
    }),
    { numRuns: runs(150) },
  );
});

// Promise(answers): Metadata names each descriptor that met no rule.
test("tells in the metadata which descriptors met no rule, the same with and without a global limit, passed and refused", () => {
  const globalLimit = fc.constantFrom(undefined, 0, 3, 1_000);
  fc.assert(
    fc.property(tree, fc.array(call, { maxLength: 8 }), globalLimit, (rules, calls, requests_per_unit) => {
      const global_limit = { requests_per_unit, unit: "hour" };
      const plain = new LimiterRig(JSON.stringify({ domain: "edge", descriptors: rules }));
      const limited = new LimiterRig(
        JSON.stringify({
          domain: "edge",
          descriptors: rules,
          ...(requests_per_unit === undefined ? {} : { global_limit }),
        }),
      );
      for (const { domain, descriptors } of calls) {
        const expected = plain
          .ask(descriptors, 0, domain)
          .statuses.flatMap(({ limit, remaining }, i) => (limit === undefined && remaining !== UNLIMITED ? [i] : []));
        const begun = limited.begin(descriptors, 0, domain);
        limited.limiter.decide(begun, Number.POSITIVE_INFINITY);
        addMetadata(begun, "notable");
        const told = (begun.decision.metadata as { unmatched?: readonly number[] } | undefined)?.unmatched ?? [];
        // Where no rule could have been met it is no news: of an unknown domain another field tells.
        expect(told).toEqual(domain !== "edge" || rules.length === 0 ? [] : expected);
      }
    }),
    { numRuns: runs(200) },
  );
});
