// The table of limits at run time against a map: whatever is put in whatever order, the newest change of each caller is found, and what is
// dropped is gone; tables with the same limits have the same sum, and no others.

import fc from "fast-check";
import { expect, test } from "vitest";
import { Descriptor } from "../../src/engine/domain/request.ts";
import { isNewer, type KeptLimit, keep, keyText, type RuntimeKey } from "../../src/engine/runtime/runtime-limit.ts";
import { RuntimeTable } from "../../src/engine/runtime/runtime-table.ts";

const text = fc.oneof(
  fc.constantFrom("a", "ab", "b", ""),
  fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((c) => String.fromCharCode(c)), maxLength: 60 }),
);
const key = fc.record({
  domain: fc.constantFrom("d", "da", "\u00ff"),
  entries: fc.array(fc.tuple(text, text), { minLength: 1, maxLength: 3 }),
});
const SKIPPED = new Set(["cost"]);
const put = fc.record({ of: fc.nat(), atUs: fc.integer({ min: 1, max: 40 }), value: fc.nat(3), drops: fc.nat(9) });

test("the newest change of each caller is found, and nothing else", () => {
  fc.assert(
    fc.property(
      fc.array(key, { minLength: 1, maxLength: 12 }),
      fc.array(put, { maxLength: 80 }),
      fc.infiniteStream(fc.nat()),
      (keys, puts, order) => {
        const [table, other] = [new RuntimeTable(), new RuntimeTable()];
        const model = new Map<string, KeptLimit>();
        for (const { of, atUs, value, drops } of puts) {
          const asked = keep(keyText(keys[of % keys.length] as RuntimeKey), `${value}`, atUs);
          const known = model.get(asked.key);
          if (known === undefined || isNewer(asked, known)) model.set(asked.key, asked);
          expect(plain(table.put(asked))).toEqual(model.get(asked.key));
          if (drops > 0) continue;
          table.delete(table.put(asked));
          model.delete(asked.key);
        }
        expect(table.size).toBe(model.size);
        expect(new Map([...table.entries()].map(([, row]) => [row.key, plain(row)]))).toEqual(model);
        for (const each of keys) {
          const domain = table.domain(each.domain);
          const found = domain && table.findRow(each.domain, domain, descriptorOf(each), SKIPPED);
          expect(found && plain(found)).toEqual(isFindable(each) ? model.get(keyText(each)) : undefined);
          const plainly = new Descriptor();
          for (const [name, value] of each.entries) plainly.addEntry(name, value);
          const read = domain && table.find(each.domain, domain, plainly, new Set());
          expect(read?.value).toBe(model.get(keyText(each))?.value);
        }
        const kept = [...model.values()].toSorted(() => ((order.next().value ?? 0) & 1) - 0.5);
        for (const [i, each] of kept.entries()) {
          expect(other.digest === table.digest).toBe(i === kept.length);
          other.put(each);
        }
        expect(other.digest).toBe(table.digest);
      },
    ),
  );
});

function plain({ key, value, atUs, mark }: KeptLimit): KeptLimit {
  return { key, value, atUs, mark };
}

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
