// Tiers: a rule whose limits depend on an entry of the descriptor. There is one rule per tier; they differ only in limits, which have names
// (`limits` of a file). A rule with `use` always has those of one name.

import { SYNC_NAMES, Sync } from "../domain/limit.ts";
import { type Descriptor, textOf } from "../domain/request.ts";
import type { LimitsDraft } from "./draft.ts";
import { type Field, type Fields, readFields, readScalars, readSection, readText, textOfNode } from "./fields.ts";
import type { ProblemLog } from "./problems.ts";
import type { LimitsByName, NamedLimits } from "./read-limits.ts";
import type { Level, Rule, Tiers } from "./rule-set.ts";
import { isInResource } from "./source.ts";
import { suggest } from "./suggest.ts";

/** The rule under the descriptor's tier. Of several such entries the first counts; an unknown value counts as no entry. */
export function ruleOfTier(rule: Rule, { entry, byName }: Tiers, descriptor: Descriptor): Rule {
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (descriptor.keys[i] === entry) return byName.get(descriptor.values[i] as string) ?? rule;
  }
  return rule;
}

/** The rules of all tiers; the rule alone if it has no tiers. */
export function rulesOfTiers(rule: Rule): readonly Rule[] {
  return rule.tiers === undefined ? [rule] : [...rule.tiers.byName.values()];
}

/** Every rule at a level and below it, in the order of the files. */
export function* allRules(level: Level): Generator<Rule> {
  for (const rule of level.rules) {
    yield rule;
    if (rule.children !== undefined) yield* allRules(rule.children);
  }
}

/** The named limits of a rule. */
interface NamedChoice {
  /** The limits that apply unless the entry names others. */
  readonly byDefault: NamedLimits;
  /** Key of the entry that names limits, one-byte; undefined: `byDefault` always applies. */
  readonly entry: string | undefined;
  /** The limits that the entry may name. */
  readonly among: readonly NamedLimits[];
}

/** Most names of limits in a message. */
const SHOWN_NAMES_MAX = 8;

/** Reads both keys. Undefined if absent or with mistakes, which are reported. `named` are the named limits of the domain. */
export function readNamedChoice(fields: Fields, named: LimitsByName, log: ProblemLog): NamedChoice | undefined {
  const use = fields.given("use");
  const tier = fields.given("tier");
  const first = use ?? tier;
  if (first === undefined) return undefined;
  refuseBeside(first, fields, log);
  if (use !== undefined) {
    const name = readText(fields, "use", log);
    const byDefault = name === undefined ? undefined : find(name, use, named, log);
    return byDefault === undefined ? undefined : { byDefault, entry: undefined, among: [] };
  }
  return readTier(fields, named, log);
}

function readTier(rule: Fields, named: LimitsByName, log: ProblemLog): NamedChoice | undefined {
  const section = readSection(rule.get("tier"), log);
  if (section === undefined) return undefined;
  const fields = readFields("tier", section, log);
  const entry = readText(fields, "entry", log) ?? "";
  const name = readText(fields, "default", log);
  const nameField = fields.given("default");
  if (entry === "" && !fields.hasRefused)
    log.error(fields.at, "tier: 'entry' is missing; it names the entry that tells the tier");
  if (nameField === undefined && !fields.hasRefused)
    log.error(fields.at, "tier: 'default' is missing", "Name the limits of callers whose entry names none.");
  const byDefault = name === undefined || nameField === undefined ? undefined : find(name, nameField, named, log);
  const among = new Set(readAmong(fields, named, log));
  for (const limits of among) limits.isUsed = true;
  if (entry === "" || byDefault === undefined) return undefined;
  return { byDefault, entry, among: [...among.add(byDefault)] };
}

function readAmong(fields: Fields, named: LimitsByName, log: ProblemLog): readonly NamedLimits[] {
  const field = fields.given("among");
  if (field === undefined) return [...named.values()];
  return readScalars(field, log).flatMap((node) => {
    const name = textOfNode("among", node, log);
    const found = name === undefined ? undefined : find(name, { name: "among", value: node }, named, log);
    return found === undefined ? [] : [found];
  });
}

function find(
  name: string,
  field: Pick<Field, "name" | "value">,
  named: LimitsByName,
  log: ProblemLog,
): NamedLimits | undefined {
  const found = named.get(name);
  if (found !== undefined) {
    found.isUsed = true;
    return found;
  }
  const names = [...named.keys()].map(textOf);
  const hint = suggest(textOf(name), names);
  const shown = `${names.slice(0, SHOWN_NAMES_MAX).join(", ")}${names.length > SHOWN_NAMES_MAX ? ", ..." : ""}`;
  const known =
    names.length === 0 ? "; this domain has no 'limits'" : hint === undefined ? `; expected one of ${shown}` : "";
  const text = `${field.name}: no limits are named '${textOf(name)}'${known}`;
  // Named limits are in a file, and a control plane's set must never be refused because of a file.
  if (isInResource(field.value.at)) log.warn(field.value.at, `${text}, so the resource's own limit applies`, hint);
  else log.error(field.value.at, text, hint);
  return undefined;
}

// The limit in a control plane's message is overridden and not reported, because the message can't leave it out.
function refuseBeside(first: Field, fields: Fields, log: ProblemLog): void {
  for (const name of ["tier", "rate_limit", "rate_limits"]) {
    const other = fields.given(name);
    if (other === undefined || other === first || (name === "rate_limit" && isInResource(other.keyAt))) continue;
    log.error(other.keyAt, `'${name}' can't stand beside '${first.name}'`, "Keep one of the two.");
  }
}

/** Reports settings that limits of a tier can't have, because a caller's tier may change from call to call. */
export function checkTierLimits(choices: Iterable<LimitsDraft>, log: ProblemLog): void {
  for (const { limits } of choices) {
    for (const { sync, syncAt } of limits) {
      if (sync === Sync.exact || sync === Sync.lease) continue;
      const text = `sync: ${SYNC_NAMES[sync]} can't stand in limits that 'tier' chooses among: nothing bounds what passes while a caller's tier changes`;
      log.error(syncAt, text, "Use 'sync: lease', or leave it out.");
    }
  }
}
