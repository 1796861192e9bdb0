// The table of limits at run time against a map: whatever is put in whatever order, the newest change of each caller is found, by all views of
// the memory, through compactions, and what is dropped is gone.

import fc from "fast-check";
import { expect, test } from "vitest";
import { Descriptor } from "../../src/engine/domain/request.ts";
import { hashOfDomain } from "../../src/engine/runtime/runtime-hash.ts";
import { type KeptLimit, keyText, type RuntimeKey } from "../../src/engine/runtime/runtime-limit.ts";
import { newRuntimeTable, RuntimeTable } from "../../src/engine/runtime/runtime-table.ts";

const text = fc.oneof(
  fc.constantFrom("a", "ab", "b", ""),
  fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((c) => String.fromCharCode(c)), maxLength: 60 }),
);
const key = fc.record({
  domain: fc.constantFrom("d", "da", "\u00ff"),
  entries: fc.array(fc.tuple(text, text), { minLength: 1, maxLength: 3 }),
});
const SKIPPED = new Set(["cost"]);

test("the newest change of each caller is found, and nothing else", () => {
  fc.assert(
    fc.property(
      fc.array(key, { minLength: 1, maxLength: 12 }),
      fc.array(
        fc.record({
          of: fc.nat(),
          atUs: fc.integer({ min: 1, max: 40 }),
          size: fc.nat(900),
          view: fc.nat(1),
          drops: fc.nat(30),
        }),
        { maxLength: 120 },
      ),
      fc.integer({ min: 1, max: 10 }),
      (keys, puts, limitsMax) => {
        const shared = newRuntimeTable(limitsMax);
        const views = [new RuntimeTable(shared, 0), new RuntimeTable(shared, 1)] as const;
        const model = new Map<string, KeptLimit>();
        for (const { of, atUs, size, view, drops } of puts) {
          const table = views[view as 0 | 1];
          const asked = {
            key: keyText(keys[of % keys.length] as RuntimeKey),
            value: `${"\u00e9".repeat(size / 2)}${atUs}`,
            atUs,
          };
          const known = model.get(asked.key);
          const put = table.put(asked);
          if (known !== undefined && known.atUs >= atUs) expect(put).toBe(false);
          else if (put === "full") expect([known, model.size]).toEqual([undefined, limitsMax * 2]);
          else model.set(asked.key, asked);
          if (drops === 0) {
            table.compact((place) => table.atUs(place) < 20);
            for (const [dropped, { atUs: at }] of [...model]) if (at < 20) model.delete(dropped);
          }
        }
        for (const table of views) {
          expect(table.size).toBe(model.size);
          const current = [...table.places()]
            .filter((place) => table.isCurrent(place))
            .map((place) => table.kept(place));
          expect(new Map(current.map((kept) => [kept.key, kept]))).toEqual(model);
          for (const each of keys) {
            const found = table.find(each.domain, hashOfDomain(each.domain), descriptorOf(each), SKIPPED);
            expect(found === 0 ? undefined : table.kept(found)).toEqual(
              isFindable(each) ? model.get(keyText(each)) : undefined,
            );
          }
        }
      },
    ),
  );
});

test("parts that come from several processes in turn are all limits, each once, whatever else is changed between them", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(key, { minLength: 1, maxLength: 24, selector: keyText }),
      fc.array(fc.record({ of: fc.nat(), by: fc.nat(1), compacts: fc.boolean() }), { maxLength: 20 }),
      (keys, changes) => {
        const tables = [new RuntimeTable(newRuntimeTable(12), 0), new RuntimeTable(newRuntimeTable(12), 0)] as const;
        const put = (table: RuntimeTable, each: RuntimeKey, atUs: number) =>
          table.put({ key: keyText(each), value: "{}", atUs });
        for (const each of keys) put(tables[0], each, 1);
        for (const each of keys.toReversed()) put(tables[1], each, 1);
        const listed: string[] = [];
        for (let next: number | undefined = 0, turn = 0; next !== undefined; turn++) {
          const table: RuntimeTable = tables[(turn & 1) as 0 | 1];
          const part: ReturnType<RuntimeTable["part"]> = table.part(next);
          listed.push(...part.places.map((place) => table.kept(place).key));
          ({ next } = part);
          const change = changes[turn];
          if (change === undefined) continue;
          const changed = tables[change.by as 0 | 1];
          put(changed, keys[change.of % keys.length] as RuntimeKey, turn + 2);
          if (change.compacts) changed.compact(() => false);
        }
        expect(listed.toSorted()).toEqual(keys.map(keyText).toSorted());
      },
    ),
  );
});

/** With an entry that calls skip wherever it stands. */
function descriptorOf({ entries }: RuntimeKey): Descriptor {
  const descriptor = new Descriptor();
  for (const [name, value] of entries) {
    descriptor.addEntry("cost", value);
    descriptor.addEntry(name, value);
  }
  return descriptor;
}

function isFindable({ entries }: RuntimeKey): boolean {
  return entries.every(([name]) => name !== "cost");
}
