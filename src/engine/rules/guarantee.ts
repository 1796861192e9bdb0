// Guarantees: each caller has a share of a limit that all callers share, and may borrow what others leave. Reads
// `guarantee`, refuses what it can't be combined with, and computes for how many callers it is kept.
//
// It is kept for n callers, with n = min(floor(rate / guaranteed rate), floor(kept part of the burst / guaranteed
// burst)). Proof: after a payment that borrowed, at time s, the shared bucket's debt is at most burst - kept part.
// Until t, guaranteed payments are at most n x (their burst + their rate x (t - s)), which is at most the kept part
// plus what has returned. So at t there is room for each of them.

import { AMOUNT_MAX, divideDown, divideUp } from "../../base/units.ts";
import { ALGORITHM_NAMES, Algorithm, type Limit, OnStoreFailure, type Priority } from "../domain/limit.ts";
import { textOf } from "../domain/request.ts";
import { type GuaranteeDraft, type LimitDraft, limitsOfDraft, type RuleDraft } from "./draft.ts";
import type { Field, Fields } from "./fields.ts";
import { dodgeOf } from "./known-keys.ts";
import { type Rate, reduceRate } from "./limit-shape.ts";
import { lowLimit, readPercent, reserveOf } from "./priority.ts";
import type { ProblemLog } from "./problems.ts";
import { isInResource } from "./source.ts";

/** Marks the caller's own limit in ids. */
const GUARANTEE_LABEL = "guarantee";

/** Reads the section. Undefined if it is absent or has mistakes, which are reported. */
export function readGuarantee(
  limit: Fields,
  readRate: (fields: Fields, field: Field) => Rate | undefined,
): GuaranteeDraft | undefined {
  const fields = limit.section("guarantee", "guarantee");
  if (fields === undefined) return undefined;
  const entry = fields.text("entry") ?? "";
  if (entry === "") fields.missing("guarantee: 'entry' is missing; it names the entry that tells callers apart");
  const rateField = fields.given("tokens_per_second");
  const rate =
    rateField === undefined
      ? fields.missing("guarantee: 'tokens_per_second' is missing; it is what each caller has at least")
      : readRate(fields, rateField);
  const burst = fields.whole("burst", 1) ?? 1;
  const callers = fields.whole("callers", 1);
  const percent = readPercent(fields, "keep", "guarantee");
  if (entry === "" || rate === undefined || percent === undefined) return undefined;
  return { ...rate, at: fields.at, entry, burst, percent, callers };
}

/** Reports what the limit can't be together with `guarantee`, and a guarantee that is not kept. */
export function checkGuarantee(draft: LimitDraft, guarantee: GuaranteeDraft, log: ProblemLog): void {
  const { at } = guarantee;
  if (draft.algorithm !== Algorithm.tokenBucket) {
    const name = ALGORITHM_NAMES[draft.algorithm];
    const text = `'guarantee' needs a token_bucket, but this limit is a ${name}: what was lent in a window does not come back in it`;
    log.error(at, text, "Use tokens_per_second, or add 'algorithm: token_bucket'.");
    return;
  }
  if (draft.priority !== undefined)
    log.error(at, "'guarantee' can't be combined with 'priority' of the same limit", "Keep one of the two.");
  const key = textOf(guarantee.entry);
  if (dodgeOf(guarantee.entry, "") !== undefined)
    log.warn(at, `guarantee: callers choose the value of '${key}': each value they invent has a guarantee of its own`);
  const kept = keptCallers(draft, guarantee);
  const { callers } = guarantee;
  if (callers === undefined) {
    const text = `guarantee: without 'callers' nothing is promised; it would be kept for up to ${kept}`;
    log.warn(at, text, kept === 0 ? remedy(draft, guarantee, 1) : `Write 'callers: ${kept}', or fewer.`);
  } else if (callers > kept)
    log.warn(at, `guarantee: kept for ${kept} of ${callers}`, remedy(draft, guarantee, callers));
}

/** Numbers that would keep it for so many callers. */
function remedy(draft: LimitDraft, guarantee: GuaranteeDraft, callers: number): string {
  const { burst, percent } = guarantee;
  const ways: string[] = [];
  const reserve = reserveOf(draft.burst, percent);
  if (callers * burst > reserve) {
    const lower = divideDown(reserve, callers);
    const raised = `raise the shared burst to ${divideUp(callers * burst * 100, percent)}`;
    ways.push(lower === 0 ? raised : `lower burst to ${lower} or ${raised}`);
  }
  if (callersByRate(draft, guarantee) < callers) {
    const many = BigInt(callers);
    const lower = perSecond(BigInt(draft.amount), BigInt(draft.windowSeconds) * many, false);
    const raised = perSecond(BigInt(guarantee.amount) * many, BigInt(guarantee.windowSeconds), true);
    const raise = `raise the shared rate to ${raised}`;
    ways.push(lower === 0 ? raise : `lower tokens_per_second to ${lower} or ${raise}`);
  }
  const text = ways.join("; ");
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
}

/** The rate in tokens per second, rounded to as many decimals, six at most, as a rule file may have. */
function perSecond(amount: bigint, seconds: bigint, roundsUp: boolean): number {
  let scale = 1_000_000n;
  while (scale > 1n && amount * scale > BigInt(AMOUNT_MAX) * seconds) scale /= 10n;
  return Number((amount * scale + (roundsUp ? seconds - 1n : 0n)) / seconds) / Number(scale);
}

/** For how many callers the guarantee is kept. */
function keptCallers(shared: Amounts & Pick<Limit, "burst">, guarantee: GuaranteeDraft): number {
  return Math.min(
    callersByRate(shared, guarantee),
    divideDown(reserveOf(shared.burst, guarantee.percent), guarantee.burst),
  );
}

type Amounts = Pick<Rate, "amount" | "windowSeconds">;

function callersByRate(shared: Amounts, own: Amounts): number {
  const rate = BigInt(shared.amount) * BigInt(own.windowSeconds);
  const ownRate = BigInt(own.amount) * BigInt(shared.windowSeconds);
  return Number(rate / ownRate);
}

/** Reports rules whose limits can't have guarantees. */
export function refuseGuarantees(draft: RuleDraft, fields: Fields): void {
  const { log } = fields;
  for (const { limits } of limitsOfDraft(draft)) {
    for (const { guarantee } of limits) {
      if (guarantee === undefined) continue;
      const { at, entry } = guarantee;
      const whyNot = reasonAgainst(draft);
      // A file must never refuse a control plane's set.
      if (whyNot !== undefined && isInResource(draft.at)) log.warn(at, `'guarantee' is not kept ${whyNot}`);
      else if (whyNot !== undefined) log.error(at, `'guarantee' can't be used ${whyNot}`);
      if (entry === draft.key && !draft.sharesThreshold) {
        const text = `'guarantee' needs a limit that several callers share, but each '${textOf(entry)}' has its own bucket here`;
        log.error(at, text, "Move it to 'global_limit', or add 'share_threshold: true'.");
      }
    }
  }
}

function reasonAgainst({ hold, isPostPaid, chargesGivenHits, tier }: RuleDraft): string | undefined {
  if (hold !== undefined) return "with 'hold': what is held may be given back to either way";
  if (isPostPaid) return "with 'post_paid', whose hits are charged without room";
  if (chargesGivenHits) return "with 'charge_given_hits', which charges hits without room";
  if (tier !== undefined)
    return "with 'tier': limits of several tiers would share one bucket and keep different parts of it";
  return undefined;
}

/**
 * The two limits of a shared limit: the caller's own, and the shared one without the kept part. They count for the
 * shared limit's stats.
 */
export function guaranteePriority(draft: GuaranteeDraft, whole: Limit): Priority {
  const { entry, percent, burst, callers = 0 } = draft;
  const keptFor = keptCallers(whole, draft);
  const { names } = whole;
  const own: Limit = {
    ...whole,
    ...reduceRate(draft.amount, draft.windowSeconds),
    burst,
    debtMax: burst,
    shownAmount: draft.amount,
    shownUnit: draft.unit,
    priority: undefined,
    covers: whole,
    names: { ...names, id: `${names.id}/${GUARANTEE_LABEL}`, readableName: GUARANTEE_LABEL },
  };
  const low: { -readonly [Key in keyof Limit]: Limit[Key] } = {
    ...lowLimit(whole, reserveOf(whole.burst, percent), { id: names.id, stats: whole.stats }),
    names,
  };
  const priority = {
    entry,
    values: new Set<string>(),
    percent,
    low,
    guarantee: { limit: own, whole, callers, keptFor },
  };
  low.priority = priority;
  return priority;
}

/** Why the process can't have it; undefined if it can. */
export function whyNoGuarantee(isCompatible: boolean, policy: OnStoreFailure): string | undefined {
  if (isCompatible) return "'guarantee' can't be used with COMPATIBILITY_MODE";
  if (policy === OnStoreFailure.local)
    return "'guarantee' can't be used with on_store_failure: local: a process alone does not know what others have borrowed";
  return undefined;
}
