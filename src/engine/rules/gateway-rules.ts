// Turns a control plane's rules into what a file would say: its messages have no fields for our keys, and have levels
// for entries that only concern holds.

import { oneByteOf } from "../domain/request.ts";
import { hasKey, without } from "./defaults.ts";
import type { ProblemLog } from "./problems.ts";
import type { HoldEntries } from "./rule-set.ts";
import { OWN_LIMIT_KEYS, RATE_KEYS, REFERENCE_KEYS } from "./schema.ts";
import type { MappingEntry, MappingNode, ScalarNode, SourceNode } from "./source.ts";

/** The member of a rule's metadata that contains keys for which the messages have no field. */
const OWN_KEYS_MEMBER = "headgate";

/** The reference service's keys for which the messages have no field. */
const KEYS_WITHOUT_FIELD: ReadonlySet<string> = new Set(["share_threshold", "value_to_metric"]);

/** The rule with its own keys moved out of its metadata, and with the hold of the domain's defaults in its place. */
export function plainRule(written: MappingNode, hold: DefaultHold | undefined, log: ProblemLog): MappingNode {
  const rule = hold === undefined ? written : withHold(written, hold, log);
  const metadata = rule.entries.find(({ key }) => key.text === "metadata")?.value;
  if (metadata?.kind !== "mapping") return rule;
  const ownKeys = metadata.entries.find(({ key }) => key.text === OWN_KEYS_MEMBER)?.value;
  if (ownKeys === undefined) return rule;
  const sent = without(metadata, [OWN_KEYS_MEMBER]);
  const rest = rule.entries.flatMap((entry) => {
    if (entry.key.text !== "metadata") return [entry];
    return sent.entries.length === 0 ? [] : [{ ...entry, value: sent }];
  });
  if (ownKeys.kind !== "mapping") {
    log.wrong(ownKeys, `${OWN_KEYS_MEMBER}: expected a mapping of keys`);
    return { ...rule, entries: rest };
  }
  const { ofRule, ofLimit } = splitKeys(ownKeys, log);
  const withLimit = rest.map((entry) =>
    isLimit(entry) && entry.value.kind === "mapping" ? { ...entry, value: limitWith(entry.value, ofLimit) } : entry,
  );
  return { ...rule, entries: [...ofRule, ...withLimit] };
}

/**
 * The keys of the rule itself, and those of its one limit. They count as merged, so that the hold of the defaults may
 * override one.
 */
function splitKeys(ownKeys: MappingNode, log: ProblemLog): Record<"ofRule" | "ofLimit", readonly MappingEntry[]> {
  const ofRule: MappingEntry[] = [];
  const ofLimit: MappingEntry[] = [];
  for (const entry of ownKeys.entries) {
    const { text, at } = entry.key;
    if (REFERENCE_KEYS.has(text) && !KEYS_WITHOUT_FIELD.has(text)) {
      log.error(at, `'${text}' is not allowed in metadata`, "The resource has its own field for it.");
    } else (OWN_LIMIT_KEYS.includes(text) ? ofLimit : ofRule).push({ ...entry, isMerged: true });
  }
  const [first] = ofLimit;
  const chosenBy = ["use", "tier"].find((name) => hasKey(ownKeys, [name]));
  if (first !== undefined && chosenBy !== undefined) {
    const message = `'${first.key.text}' can't be combined with '${chosenBy}'`;
    log.error(first.key.at, message, "Set it in the limits of that name.");
  }
  return { ofRule, ofLimit };
}

/** The limit with further keys. A rate or a window among them removes the message's own unit and amount. */
function limitWith(limit: MappingNode, entries: readonly MappingEntry[]): MappingNode {
  const own = { ...limit, entries };
  const unfit = hasKey(own, RATE_KEYS) ? ["unit", "requests_per_unit"] : hasKey(own, ["window"]) ? ["unit"] : [];
  return { ...limit, entries: [...entries, ...without(limit, unfit).entries] };
}

/** The hold of each domain whose defaults have a valid one, by domain, one-byte. */
export type DefaultHolds = ReadonlyMap<string, DefaultHold>;

/** In names of entries: matches the number of a policy's rule. */
const STAR = "*";

/**
 * The hold that the defaults of a domain give rules, of which `hold` was read; undefined if it has a mistake, which is
 * reported.
 */
export function defaultHoldOf(defaults: MappingNode, hold: HoldEntries, log: ProblemLog): DefaultHold | undefined {
  const entries = defaults.entries.filter(({ key }) => key.text === "hold" || key.text === "concurrent");
  const { idEntry, settleEntry, estimate } = hold;
  const otherEntries = [settleEntry, ...(estimate?.entry === undefined ? [] : [estimate.entry])];
  if ([idEntry, ...otherEntries].every((name) => name.split(STAR).length <= 2))
    return { entries, idEntry, otherEntries, isUsed: false };
  log.error(defaults.at, `hold: expected at most one '${STAR}' in the name of an entry`);
  return undefined;
}

/** Warns of holds that no rule uses. Must be called when all rules have been read. */
export function warnUnused(holds: DefaultHolds, log: ProblemLog): void {
  for (const { isUsed, entries } of holds.values()) {
    const [first] = entries;
    if (isUsed || first === undefined) continue;
    const message = "no rule from a control plane has the entry that 'id' names, so nothing is held";
    log.warn(first.key.at, message, "Rules in files need their own 'hold'.");
  }
}

/** The hold of one domain's defaults. */
export interface DefaultHold {
  /** The keys `hold` and `concurrent`, as far as the defaults have them. */
  readonly entries: readonly MappingEntry[];
  readonly idEntry: string;
  /** Names of the settle entry and the estimate entry. */
  readonly otherEntries: readonly string[];
  isUsed: boolean;
}

/** The rule without those rules below it whose entries only speak of holds, and with their limit and the hold. */
function withHold(rule: MappingNode, defaultHold: DefaultHold, log: ProblemLog): MappingNode {
  const { entries, idEntry, otherEntries } = defaultHold;
  const isHeld = ({ key }: MappingEntry) => entries.some((entry) => entry.key.text === key.text);
  const handed = rule.entries.filter(isHeld);
  const own = rule.entries.filter((entry) => !isHeld(entry) && entry.key.text !== "descriptors");
  const below: MappingNode[] = [];
  let held: readonly MappingEntry[] = own.some(isLimit) ? handed : [];
  const visit = (child: MappingNode, hold: readonly MappingEntry[]): void => {
    const number = numberIn(keyOf(child), idEntry);
    if (number === undefined && !otherEntries.some((name) => numberIn(keyOf(child), name) !== undefined)) {
      below.push(hold.length === 0 ? child : { ...child, entries: [...child.entries, ...hold] });
      return;
    }
    const later = number === undefined ? hold : entries.map((entry) => numbered(entry, number));
    const words = child.entries.filter(({ key }) => !["key", "value", "descriptors"].includes(key.text));
    if (words.some(isLimit)) {
      if (own.some(isLimit)) log.error(entries[0]?.key.at ?? rule.at, TWO_LIMITS);
      own.push(...words);
      held = later;
    }
    for (const grandchild of childrenOf(child)) visit(grandchild, later);
  };
  for (const child of childrenOf(rule)) visit(child, handed);
  if (held.length > 0) defaultHold.isUsed = true;
  const descriptors = rule.entries.find(({ key }) => key.text === "descriptors");
  const rest = descriptors === undefined || below.length === 0 ? [] : [withItems(descriptors, below)];
  return { ...rule, entries: [...own, ...held, ...rest] };
}

const TWO_LIMITS = "'hold' would join two limits of the control plane: without its entries they are the same rule";

const isLimit = ({ key }: MappingEntry) => key.text === "rate_limit";

function keyOf(rule: MappingNode): string {
  const value = rule.entries.find(({ key }) => key.text === "key")?.value;
  return value?.kind === "scalar" ? oneByteOf(value.text) : "";
}

function childrenOf(rule: MappingNode): readonly MappingNode[] {
  const value = rule.entries.find(({ key }) => key.text === "descriptors")?.value;
  if (value?.kind !== "sequence") return [];
  return value.items.filter((item): item is MappingNode => item.kind === "mapping");
}

/**
 * The number in `key` at the place of the star in `name`; empty if `name` has no star. Undefined if `key` does not
 * match.
 */
function numberIn(key: string, name: string): string | undefined {
  const [before = "", after] = name.split(STAR);
  if (after === undefined) return key === name ? "" : undefined;
  const number = key.slice(before.length, key.length - after.length);
  return key.startsWith(before) && key.endsWith(after) && /^\d+$/.test(number) ? number : undefined;
}

function numbered(entry: MappingEntry, number: string): MappingEntry {
  return { ...entry, value: withNumber(entry.value, number) };
}

function withNumber(node: SourceNode, number: string): SourceNode {
  if (node.kind === "mapping") return { ...node, entries: node.entries.map((entry) => numbered(entry, number)) };
  if (node.kind !== "scalar" || number === "" || !node.text.includes(STAR)) return node;
  return { ...node, text: node.text.replace(STAR, number) } satisfies ScalarNode;
}

function withItems(descriptors: MappingEntry, items: readonly MappingNode[]): MappingEntry {
  const { value } = descriptors;
  return value.kind === "sequence" ? { ...descriptors, value: { ...value, items } } : descriptors;
}
