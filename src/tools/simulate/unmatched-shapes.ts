// Descriptors that met no rule, and domains without rules, by their names: what a rule file forgets.

import { type Descriptor, textOf } from "../../engine/domain/request.ts";
import type { LimitCall } from "../../engine/limiter/call.ts";
import { findRule } from "../../engine/rules/match.ts";

/** Shapes counted separately; callers choose keys and domains, so there may be any number. */
const SHAPES_MAX = 200;
/** How many keys and characters of a shape are shown and compared. */
const KEYS_SHOWN_MAX = 16;
const NAME_CHARS_MAX = 120;

/** Counts them. */
export class UnmatchedShapes {
  /** `keys` are in their order; empty for a descriptor without entries. */
  readonly #shapes = new Map<
    string,
    {
      readonly domain: string;
      readonly keys: readonly string[];
      descriptors: number;
      readonly domain_has_rules: boolean;
    }
  >();
  /** Descriptors of shapes beyond the bound. */
  others = 0;
  descriptors = 0;

  /** Looks at a decided call. */
  count(call: LimitCall): void {
    for (let i = 0; i < call.request.descriptorCount; i++) {
      const descriptor = call.request.descriptors[i] as Descriptor;
      if (call.rules[i] !== undefined || descriptor.hasOverride) continue;
      if (!hasRule(call, descriptor)) this.#add(call, descriptor);
    }
  }

  /** The most frequent first. */
  list() {
    return [...this.#shapes.values()].sort((a, b) => b.descriptors - a.descriptors);
  }

  #add(call: LimitCall, descriptor: Descriptor): void {
    this.descriptors++;
    const domain = shown(call.request.domain);
    const keys = descriptor.keys.slice(0, Math.min(descriptor.entryCount, KEYS_SHOWN_MAX)).map(shown);
    const id = JSON.stringify([domain, ...keys]);
    let shape = this.#shapes.get(id);
    if (shape === undefined) {
      if (this.#shapes.size >= SHAPES_MAX) {
        this.others++;
        return;
      }
      shape = { domain, keys, descriptors: 0, domain_has_rules: call.domain !== undefined };
      this.#shapes.set(id, shape);
    }
    shape.descriptors++;
  }
}

// A rule is met even if another rule replaces all its limits, or if its limits take no settlements.
function hasRule({ domain }: LimitCall, descriptor: Descriptor): boolean {
  return domain !== undefined && findRule(domain, descriptor, []) !== undefined;
}

function shown(oneByte: string): string {
  return oneByte.length <= NAME_CHARS_MAX ? textOf(oneByte) : `${textOf(oneByte.slice(0, NAME_CHARS_MAX))}...`;
}
