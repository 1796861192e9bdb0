// Applies `hold` in the `defaults` of a file to the rules of a control plane. A control plane makes rules of all entries, also of those
// that only speak of holds, such as the id, and puts the limit below them. These rules are removed, and their limit moves up, together
// with the hold.

import { oneByteOf } from "../domain/request.ts";
import type { Defaults } from "./added-keys.ts";
import { readFields } from "./fields.ts";
import { readHold } from "./hold.ts";
import type { ProblemLog } from "./problems.ts";
import type { MappingEntry, MappingNode, ScalarNode, SourceNode } from "./source.ts";

/** The hold of each domain whose defaults have a valid one, by domain, one-byte. */
export type DefaultHolds = ReadonlyMap<string, DefaultHold>;

/** In names of entries: matches the number of a policy's rule. */
const STAR = "*";

/** Reads the holds of all defaults. Mistakes are reported; such a hold is left out. */
export function gatherHolds(defaults: Defaults, log: ProblemLog): DefaultHolds {
  const found = new Map<string, DefaultHold>();
  for (const [domain, mapping] of defaults) {
    const entries = mapping.entries.filter(({ key }) => key.text === "hold" || key.text === "concurrent");
    const errorsBefore = log.errorCount;
    const { hold } = readHold(readFields("defaults", [mapping], log), log);
    if (hold === undefined || log.errorCount > errorsBefore) continue;
    const { idEntry, settleEntry, estimate } = hold;
    const otherEntries = [settleEntry, ...(estimate?.entry === undefined ? [] : [estimate.entry])];
    if ([idEntry, ...otherEntries].some((name) => name.split(STAR).length > 2)) {
      log.error(mapping.at, `hold: expected at most one '${STAR}' in the name of an entry`);
    } else found.set(domain, new DefaultHold(entries, idEntry, otherEntries));
  }
  return found;
}

/** Warns of holds that no rule uses. Must be called when all rules have been read. */
export function warnUnused(holds: DefaultHolds, log: ProblemLog): void {
  for (const { isUsed, entries } of holds.values()) {
    const [first] = entries;
    if (isUsed || first === undefined) continue;
    const message = "no rule of a control plane has the entry that 'id' names, so nothing is held";
    log.warn(first.key.at, message, "A rule of a file has a 'hold' of its own.");
  }
}

/** The hold of one domain's defaults. */
export class DefaultHold {
  /** The keys `hold` and `concurrent`, as far as the defaults have them. */
  readonly entries: readonly MappingEntry[];
  isUsed = false;
  readonly #idEntry: string;
  /** Names of the settle entry and the estimate entry. */
  readonly #otherEntries: readonly string[];

  constructor(entries: readonly MappingEntry[], idEntry: string, otherEntries: readonly string[]) {
    this.entries = entries;
    this.#idEntry = idEntry;
    this.#otherEntries = otherEntries;
  }

  /** The rule without those rules below it whose entries only speak of holds, and with their limit and the hold. */
  placedAt(rule: MappingNode, log: ProblemLog): MappingNode {
    const isHeld = ({ key }: MappingEntry) => this.entries.some((entry) => entry.key.text === key.text);
    const handed = rule.entries.filter(isHeld);
    const own = rule.entries.filter((entry) => !isHeld(entry) && entry.key.text !== "descriptors");
    const below: MappingNode[] = [];
    let held: readonly MappingEntry[] = own.some(isLimit) ? handed : [];
    const visit = (child: MappingNode, hold: readonly MappingEntry[]): void => {
      const number = numberIn(keyOf(child), this.#idEntry);
      if (number === undefined && !this.#otherEntries.some((name) => numberIn(keyOf(child), name) !== undefined)) {
        below.push(hold.length === 0 ? child : { ...child, entries: [...child.entries, ...hold] });
        return;
      }
      const later = number === undefined ? hold : this.entries.map((entry) => numbered(entry, number));
      const words = child.entries.filter(({ key }) => !["key", "value", "descriptors"].includes(key.text));
      if (words.some(isLimit)) {
        if (own.some(isLimit)) log.error(this.entries[0]?.key.at ?? rule.at, TWO_LIMITS);
        own.push(...words);
        held = later;
      }
      for (const grandchild of childrenOf(child)) visit(grandchild, later);
    };
    for (const child of childrenOf(rule)) visit(child, handed);
    if (held.length > 0) this.isUsed = true;
    const descriptors = rule.entries.find(({ key }) => key.text === "descriptors");
    const rest = descriptors === undefined || below.length === 0 ? [] : [withItems(descriptors, below)];
    return { ...rule, entries: [...own, ...held, ...rest] };
  }
}

const TWO_LIMITS = "'hold' would bring two limits of the control plane together: without its entries they are one rule";

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

/** The number in `key` at the place of the star in `name`; empty if `name` has no star. Undefined if `key` does not match. */
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
