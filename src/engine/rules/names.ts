// Makes names of limits safe for headers, keys and labels: unsafe characters are replaced, and different names stay different.

import type { LongWork } from "../base/long-work.ts";
import { textOf } from "../domain/request.ts";
import type { ProblemLog } from "./problems.ts";
import type { Place } from "./source.ts";

const UNSAFE = /[^A-Za-z0-9_.:/-]/g;

/** The safe names of one domain. */
export class SafeNames {
  readonly #safeOf = new Map<string, string>();
  readonly #taken = new Set<string>();
  /** The last number tried for each name. All before it are taken, and are not tried again: a hostile set has 100,000 such names. */
  readonly #numbers = new Map<string, number>();

  /** Adds all names in the domain, in the order of the files, one per step. Called once; safe names do not change. */
  *addAll(names: Iterable<{ name: string; at: Place }>, log: ProblemLog): LongWork<void> {
    const unsafe = new Map<string, Place>();
    for (const { name, at } of names) {
      yield;
      if (textOf(name).search(UNSAFE) < 0) {
        this.#safeOf.set(name, name);
        this.#taken.add(name);
      } else if (!unsafe.has(name)) unsafe.set(name, at);
    }
    for (const [name, at] of unsafe) {
      yield;
      const safe = this.#firstFree(textOf(name).replace(UNSAFE, "_"));
      this.#safeOf.set(name, safe);
      const message = `name ${JSON.stringify(textOf(name))} holds characters that are not safe in headers; it appears as '${safe}'`;
      log.warn(at, message, "Use letters, digits and _ . : / - only.");
    }
  }

  /** The safe form of a name as written; the name itself if no limit has it. */
  safe(name: string): string {
    return this.#safeOf.get(name) ?? name;
  }

  /** The safe form of those names that limits have as written. A name that is merely another's safe form is none. */
  safeOfKnown(names: readonly { readonly name: string }[]): readonly string[] {
    return names.flatMap(({ name }) => this.#safeOf.get(name) ?? []);
  }

  has(name: string): boolean {
    return this.#safeOf.has(name);
  }

  #firstFree(wanted: string): string {
    let number = this.#numbers.get(wanted) ?? 0;
    let name: string;
    do {
      number++;
      name = number === 1 ? wanted : `${wanted}_${number}`;
    } while (this.#taken.has(name));
    this.#numbers.set(wanted, number);
    this.#taken.add(name);
    return name;
  }
}
