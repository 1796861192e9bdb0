// Keeps the results of comparing: counts by field and by rule, and the first differing calls in full, without callers'
// values. report.ts and metrics.ts show them.

import { getOrInsert } from "../../base/get-or-insert.ts";
import { isoTime } from "../../base/units.ts";
import { typedText } from "../../engine/domain/entry-text.ts";
import type { AnswerHeader, AnswerStatus, AskedRequest, TargetAnswer } from "./answer.ts";
import { DIFFERENCE_FIELDS, type Difference, type DifferenceField, limitText } from "./compare.ts";

/** Most differing calls that are kept in full. */
export const EXAMPLES_MAX = 100;
/** Most rules that are counted separately. All others are counted together, under empty names. */
export const DIFFERING_RULES_MAX = 500;
const DESCRIPTORS_SHOWN_MAX = 20;

/** Whether reports show values of entries and text in metadata. */
export const VALUE_MODES = ["hide", "show"] as const;
export type ValueMode = (typeof VALUE_MODES)[number];

const TEXT_CHARS_MAX = 200;

/** Differences on one rule, which is identified by the keys of the descriptor and the limits of both answers. */
interface RuleDifferences {
  readonly domain: string;
  /** Keys of the descriptor, joined by `/`. */
  readonly keys: string;
  /** The limit that each target shows. */
  readonly answering_limit: string;
  readonly compared_limit: string;
  /** Calls in which anything of this rule differed. */
  calls: number;
  /**
   * The part of `calls` that only one target had over limit. Noise is about even on both sides, a stricter rule is not.
   */
  over_only_answering: number;
  over_only_compared: number;
  readonly fields: Partial<Record<DifferenceField, number>>;
}

/** A differing call in full. */
export type Example = ReturnType<Differences["exampleOf"]>;

/** One compared call. */
interface ComparedAnswers {
  readonly request: AskedRequest;
  readonly answering: TargetAnswer;
  readonly compared: TargetAnswer;
  readonly differences: readonly Difference[];
  /** When the call came, in microseconds since the epoch. */
  readonly atUs: number;
}

/** The counts and examples of one run. */
export class Differences {
  same = 0;
  different = 0;
  readonly fields: Record<DifferenceField, number>;
  readonly examples: Example[] = [];
  readonly #rules = new Map<string, RuleDifferences>();
  readonly #showsValues: boolean;

  constructor(values: ValueMode) {
    this.#showsValues = values === "show";
    this.fields = Object.fromEntries(DIFFERENCE_FIELDS.map((field) => [field, 0])) as Record<DifferenceField, number>;
  }

  /** Rules with differences, most differing calls first. */
  rules(): RuleDifferences[] {
    return [...this.#rules.values()].toSorted((a, b) => b.calls - a.calls);
  }

  /** Counts one compared call; each field and each rule counts once per call. */
  enter(call: ComparedAnswers): void {
    if (call.differences.length === 0) {
      this.same++;
      return;
    }
    this.different++;
    for (const field of new Set(call.differences.map((difference) => difference.field))) this.fields[field]++;
    for (const [descriptor, fields] of fieldsByDescriptor(call)) this.#enterRule(call, descriptor, fields);
    if (this.examples.length < EXAMPLES_MAX) this.examples.push(this.exampleOf(call));
  }

  #enterRule(call: ComparedAnswers, descriptor: number, fields: ReadonlySet<DifferenceField>): void {
    const rule = this.#ruleOf(call, descriptor);
    rule.calls++;
    const isOverA = isOver(call.answering.statuses[descriptor]);
    const isOverB = isOver(call.compared.statuses[descriptor]);
    if (isOverA && !isOverB) rule.over_only_answering++;
    if (isOverB && !isOverA) rule.over_only_compared++;
    for (const field of fields) rule.fields[field] = (rule.fields[field] ?? 0) + 1;
  }

  #ruleOf({ request, answering, compared }: ComparedAnswers, descriptor: number): RuleDifferences {
    const keys = (request.descriptors[descriptor]?.entries ?? []).map(({ key }) => key).join("/");
    let name = {
      domain: short(request.domain),
      keys: short(keys),
      answering_limit: shownLimit(answering, descriptor),
      compared_limit: shownLimit(compared, descriptor),
    };
    const idOf = () => JSON.stringify(Object.values(name));
    if (this.#rules.size >= DIFFERING_RULES_MAX && !this.#rules.has(idOf())) {
      name = { domain: "", keys: "", answering_limit: "", compared_limit: "" };
    }
    const none = { calls: 0, over_only_answering: 0, over_only_compared: 0 };
    return getOrInsert(this.#rules, idOf(), () => ({ ...name, ...none, fields: {} }));
  }

  /** The call with its values cut and hidden, safe to show. */
  exampleOf({ request, differences, atUs }: ComparedAnswers) {
    return {
      at: isoTime(atUs),
      domain: short(request.domain),
      hits_addend: request.hits_addend,
      descriptors: request.descriptors
        .slice(0, DESCRIPTORS_SHOWN_MAX)
        .map(({ entries }) => entries.map((entry) => this.#entryText(entry)).join(",")),
      differences: differences.map((difference) => this.#shown(difference)),
    };
  }

  #shown({ field, descriptor, path, answering, compared }: Difference) {
    const isWhole = path === "" && (field === "metadata" || field === "body");
    // Only metadata may repeat what callers sent; the other fields come from rules.
    const textOf = (value: unknown): string => {
      if (value === undefined) return "none";
      if (isWhole) return "present";
      return field === "metadata" ? this.#leafText(value) : short(String(value));
    };
    return {
      field,
      ...(descriptor >= 0 && { descriptor }),
      ...(path !== "" && { path: short(path) }),
      answering: textOf(answering),
      compared: textOf(compared),
    };
  }

  /** The entry as it would be typed, or its key alone. */
  #entryText({ key, value }: AnswerHeader): string {
    return this.#showsValues ? typedText([{ key: short(key), value: short(value) }]) : short(key);
  }

  #leafText(value: unknown): string {
    if (typeof value !== "string") return String(value);
    return this.#showsValues ? short(value) : "(text)";
  }
}

// Differences of the whole answer count for the descriptors that differ; if none does, for the one over limit, or else
// the first.
function fieldsByDescriptor(call: ComparedAnswers): Map<number, Set<DifferenceField>> {
  const fields = new Map<number, Set<DifferenceField>>();
  const add = (descriptor: number, field: DifferenceField) => {
    getOrInsert(fields, descriptor, () => new Set()).add(field);
  };
  for (const { descriptor, field } of call.differences) if (descriptor >= 0) add(descriptor, field);
  const refused = [call.answering, call.compared].map(({ statuses }) => statuses.findIndex(isOver));
  const owners = fields.size > 0 ? [...fields.keys()] : [Math.max(0, ...refused)];
  for (const { descriptor, field } of call.differences) {
    if (descriptor < 0) for (const owner of owners) add(owner, field);
  }
  return fields;
}

function isOver(status: AnswerStatus | undefined): boolean {
  return status?.code === "OVER_LIMIT";
}

function shownLimit(answer: TargetAnswer, descriptor: number): string {
  if (answer.grpcCode !== 0) return `error ${answer.grpcCode}`;
  return short(limitText(answer.statuses[descriptor]?.current_limit));
}

/** The text, cut to TEXT_CHARS_MAX characters. */
function short(text: string): string {
  return text.length <= TEXT_CHARS_MAX ? text : `${text.slice(0, TEXT_CHARS_MAX - 3)}...`;
}
