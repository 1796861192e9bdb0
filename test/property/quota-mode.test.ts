// Which calls quota mode refuses: generated calls over every kind of rule, against the two sentences of docs/rules-file.md.

import fc from "fast-check";
import { expect, test } from "vitest";
import { LimiterRig } from "../support/limiter-rig.ts";
import { runs } from "../support/runs.ts";

const LIMITS = {
  full: "rate_limit: { requests_per_unit: 0, unit: day }",
  room: "rate_limit: { requests_per_unit: 1000, unit: day }",
  unlimited: "rate_limit: { unlimited: true }",
  fullTier: "tier: { entry: plan, default: full }",
  unlimitedTier: "tier: { entry: plan, default: free }",
  noLimit: "",
} as const;
const MODES = {
  plain: "",
  quota: "quota_mode: true",
  shadow: "shadow_mode: true",
  both: "quota_mode: true, shadow_mode: true",
} as const;
type LimitName = keyof typeof LIMITS;
type ModeName = keyof typeof MODES;

const LIMIT_NAMES = Object.keys(LIMITS) as LimitName[];
const MODE_NAMES = Object.keys(MODES) as ModeName[];
/** What COMPATIBILITY_MODE and the recorded service both know. */
const RECORDED = LIMIT_NAMES.filter((name) => !name.endsWith("Tier"));

interface Asked {
  readonly limit: LimitName | "noRule";
  readonly mode: ModeName;
}

const asked = (limits: readonly LimitName[]) =>
  fc.array(fc.record({ limit: fc.constantFrom(...limits, "noRule" as const), mode: fc.constantFrom(...MODE_NAMES) }), {
    minLength: 1,
    maxLength: 4,
  });

function rulesOf(limits: readonly LimitName[], named: string): string {
  const rules = limits.flatMap((limit) =>
    MODE_NAMES.map((mode) => {
      const fields = [`key: ${limit}-${mode}`, MODES[mode], LIMITS[limit]].filter((field) => field !== "");
      return `  - { ${fields.join(", ")} }`;
    }),
  );
  return `domain: edge\n${named}descriptors:\n${rules.join("\n")}\n`;
}

function isRefused(descriptors: readonly Asked[], quotaMode: boolean, compatible: boolean): boolean {
  const found = descriptors.map(({ limit, mode }) => {
    const isUnlimited = limit.startsWith("unlimited");
    const hasLimit = isUnlimited || limit === "room" || limit.startsWith("full");
    const isQuota = quotaMode || (hasLimit && (mode === "quota" || mode === "both"));
    return {
      // In the recorded service an unlimited descriptor is none of the quota descriptors.
      isQuota: isQuota && !(compatible && isUnlimited),
      isOver: limit.startsWith("full") && (mode === "plain" || mode === "quota"),
    };
  });
  const quotas = found.filter(({ isQuota }) => isQuota);
  return (
    found.some(({ isQuota, isOver }) => isOver && !isQuota) ||
    (quotas.length > 0 && quotas.every(({ isOver }) => isOver))
  );
}

test.each([
  {
    of: "refuses a call when an ordinary descriptor is over, or every quota descriptor is",
    limits: LIMIT_NAMES,
    named: "limits: { full: { requests_per_unit: 0, unit: day }, free: { unlimited: true } }\n",
    compatible: false,
  },
  {
    of: "passes over unlimited descriptors in COMPATIBILITY_MODE, as recorded",
    limits: RECORDED,
    named: "",
    compatible: true,
  },
])("quota mode $of", ({ limits, named, compatible }) => {
  const rigs = [false, true].map((quotaMode) => new LimiterRig(rulesOf(limits, named), { quotaMode, compatible }));
  fc.assert(
    fc.property(asked(limits), fc.nat(1), (descriptors, which) => {
      const answer = rigs[which]?.ask(
        descriptors.map(({ limit, mode }) => ({ entries: { [`${limit}-${mode}`]: "x" } })),
      );
      expect(answer?.over).toBe(isRefused(descriptors, which === 1, compatible));
    }),
    { numRuns: runs(2_000) },
  );
});
