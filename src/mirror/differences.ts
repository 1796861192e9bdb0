// Keeps what comparing found: counts of everything, by field and by rule, and the first differences in full.
// How it is shown is left to report.ts and telemetry/mirror-metrics.ts.

import { isoTime } from "../core/units.ts";
import type { ShownAnswer, ShownRequest, ShownStatus } from "./answer.ts";
import { DIFFERENCE_FIELDS, type Difference, type DifferenceField, limitText } from "./compare.ts";
import type { ValueGuard } from "./value-guard.ts";

/** Differing calls that are kept in full. */
export const EXAMPLES_MAX = 100;
/** Rules told apart; the differences of further ones are counted under one name. */
export const RULES_MAX = 500;
const DESCRIPTORS_SHOWN_MAX = 20;
const NAME_CHARS_MAX = 200;

/** What differed on one rule, as far as answers tell which rule that is. */
export interface RuleDifferences {
  readonly domain: string;
  /** Keys of the descriptor, joined by `/`. */
  readonly keys: string;
  /** The limit that each target shows. */
  readonly answeringLimit: string;
  readonly comparedLimit: string;
  /** Calls in which anything of this rule differed. */
  calls: number;
  /** Of these, calls that only one of the two had over limit. Noise is even on both sides, a stricter rule is not. */
  overOnlyAnswering: number;
  overOnlyCompared: number;
  readonly fields: Partial<Record<DifferenceField, number>>;
}

/** A difference made safe to show. */
interface ShownDifference {
  readonly field: DifferenceField;
  readonly descriptor?: number;
  readonly path?: string;
  readonly answering: string;
  readonly compared: string;
}

/** A differing call in full. */
export interface Example {
  readonly at: string;
  readonly domain: string;
  readonly hitsAddend: number;
  /** Entries as `key=value`, or `key` alone where values are left out. */
  readonly descriptors: readonly string[];
  readonly differences: readonly ShownDifference[];
}

/** One compared call, for the book. */
interface ComparedAnswers {
  readonly request: ShownRequest;
  readonly answering: ShownAnswer;
  readonly compared: ShownAnswer;
  readonly differences: readonly Difference[];
  /** In microseconds since the epoch. */
  readonly atUs: number;
}

/** The counts and examples of one run. */
export class Differences {
  same = 0;
  different = 0;
  readonly fields: Record<DifferenceField, number>;
  readonly examples: Example[] = [];
  readonly #rules = new Map<string, RuleDifferences>();
  readonly #guard: ValueGuard;

  constructor(guard: ValueGuard) {
    this.#guard = guard;
    this.fields = Object.fromEntries(DIFFERENCE_FIELDS.map((field) => [field, 0])) as Record<DifferenceField, number>;
  }

  /** Rules on which something differed, most differing calls first. */
  rules(): RuleDifferences[] {
    return [...this.#rules.values()].toSorted((a, b) => b.calls - a.calls);
  }

  /** Enters one compared call; each field and each rule counts once per call. */
  enter(call: ComparedAnswers): void {
    if (call.differences.length === 0) {
      this.same++;
      return;
    }
    this.different++;
    for (const field of new Set(call.differences.map((difference) => difference.field))) this.fields[field]++;
    for (const [descriptor, fields] of fieldsByDescriptor(call)) this.#enterRule(call, descriptor, fields);
    if (this.examples.length < EXAMPLES_MAX) this.examples.push(this.#exampleOf(call));
  }

  #enterRule(call: ComparedAnswers, descriptor: number, fields: ReadonlySet<DifferenceField>): void {
    const rule = this.#ruleOf(call, descriptor);
    rule.calls++;
    const isOverA = isOver(call.answering.statuses[descriptor]);
    const isOverB = isOver(call.compared.statuses[descriptor]);
    if (isOverA && !isOverB) rule.overOnlyAnswering++;
    if (isOverB && !isOverA) rule.overOnlyCompared++;
    for (const field of fields) rule.fields[field] = (rule.fields[field] ?? 0) + 1;
  }

  #ruleOf({ request, answering, compared }: ComparedAnswers, descriptor: number): RuleDifferences {
    const keys = (request.descriptors[descriptor]?.entries ?? []).map(({ key }) => key).join("/");
    const name = {
      domain: short(request.domain),
      keys: short(keys),
      answeringLimit: shownLimit(answering, descriptor),
      comparedLimit: shownLimit(compared, descriptor),
    };
    const id = JSON.stringify(Object.values(name));
    const known = this.#rules.get(id) ?? (this.#rules.size >= RULES_MAX ? this.#rules.get("") : undefined);
    if (known !== undefined) return known;
    const isFull = this.#rules.size >= RULES_MAX;
    const rule: RuleDifferences = {
      ...(isFull ? { domain: "other", keys: "other", answeringLimit: "other", comparedLimit: "other" } : name),
      calls: 0,
      overOnlyAnswering: 0,
      overOnlyCompared: 0,
      fields: {},
    };
    this.#rules.set(isFull ? "" : id, rule);
    return rule;
  }

  #exampleOf({ request, differences, atUs }: ComparedAnswers): Example {
    return {
      at: isoTime(atUs),
      domain: short(request.domain),
      hitsAddend: request.hitsAddend,
      descriptors: request.descriptors
        .slice(0, DESCRIPTORS_SHOWN_MAX)
        .map(({ entries }) => entries.map((entry) => this.#guard.entryText(entry)).join(",")),
      differences: differences.map((difference) => this.#shown(difference)),
    };
  }

  #shown(difference: Difference): ShownDifference {
    const { field, descriptor, path, answering, compared } = difference;
    const isWhole = path === "" && (field === "metadata" || field === "body");
    // Only metadata repeats what callers sent; all else is made of the rules.
    const textOf = (value: unknown): string => {
      if (value === undefined) return "none";
      if (isWhole) return "present";
      return field === "metadata" ? this.#guard.leafText(value) : short(String(value));
    };
    return {
      field,
      ...(descriptor >= 0 && { descriptor }),
      ...(path !== "" && { path: short(path) }),
      answering: textOf(answering),
      compared: textOf(compared),
    };
  }
}

// What differs in the answer as a whole is put down to the descriptor that decided, unless descriptors differ themselves.
function fieldsByDescriptor(call: ComparedAnswers): Map<number, Set<DifferenceField>> {
  const fields = new Map<number, Set<DifferenceField>>();
  const add = (descriptor: number, field: DifferenceField) => {
    const known = fields.get(descriptor) ?? new Set();
    fields.set(descriptor, known.add(field));
  };
  for (const { descriptor, field } of call.differences) if (descriptor >= 0) add(descriptor, field);
  const owners = fields.size > 0 ? [...fields.keys()] : [decidingDescriptor(call)];
  for (const { descriptor, field } of call.differences) {
    if (descriptor < 0) for (const owner of owners) add(owner, field);
  }
  return fields;
}

function decidingDescriptor({ answering, compared }: ComparedAnswers): number {
  const statuses = answering.statuses.length > 0 ? answering.statuses : compared.statuses;
  const over = statuses.findIndex(isOver);
  if (over >= 0) return over;
  let best = 0;
  let least = Number.POSITIVE_INFINITY;
  statuses.forEach(({ limit, remaining }, i) => {
    if (limit === undefined || remaining >= least) return;
    least = remaining;
    best = i;
  });
  return best;
}

function isOver(status: ShownStatus | undefined): boolean {
  return status?.code === "OVER_LIMIT";
}

function shownLimit(answer: ShownAnswer, descriptor: number): string {
  if (answer.grpcCode !== 0) return `error ${answer.grpcCode}`;
  return short(limitText(answer.statuses[descriptor]?.limit));
}

function short(text: string): string {
  return text.length <= NAME_CHARS_MAX ? text : `${text.slice(0, NAME_CHARS_MAX - 3)}...`;
}
