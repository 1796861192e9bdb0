// Which calls quota mode refuses: generated calls over every kind of rule, against the two sentences of docs/rules-file.md.

import fc from "fast-check";
import { expect, test } from "vitest";
import { Unit } from "../../src/engine/domain/limit.ts";
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
  /** The limit that the descriptor brings along. */
  readonly brings: "full" | "room" | undefined;
}

const asked = (limits: readonly LimitName[]) =>
  fc.array(
    fc.record({
      limit: fc.constantFrom(...limits, "noRule" as const),
      mode: fc.constantFrom(...MODE_NAMES),
      brings: fc.constantFrom("full" as const, "room" as const, undefined, undefined),
    }),
    { minLength: 1, maxLength: 4 },
  );

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
  const found = descriptors.map(({ limit, mode, brings }) => {
    const isUnlimited = limit.startsWith("unlimited");
    const hasLimit = isUnlimited || limit === "room" || limit.startsWith("full");
    // In the recorded service no field of the rule applies to a limit that the descriptor brings.
    const isRules = hasLimit && !(compatible && brings !== undefined);
    const isQuota = quotaMode || (isRules && (mode === "quota" || mode === "both"));
    const isShadow = isRules && (mode === "shadow" || mode === "both");
    return {
      // Nor is an unlimited descriptor one of the quota descriptors there.
      isQuota: isQuota && !(compatible && isUnlimited && brings === undefined),
      isOver: (brings ?? limit).startsWith("full") && !isShadow,
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
        descriptors.map(({ limit, mode, brings }) => ({
          entries: { [`${limit}-${mode}`]: "x" },
          ...(brings === undefined ? {} : { override: { amount: brings === "full" ? 0 : 1_000_000, unit: Unit.week } }),
        })),
      );
      expect(answer?.over).toBe(isRefused(descriptors, which === 1, compatible));
    }),
    { numRuns: runs(2_000) },
  );
});
