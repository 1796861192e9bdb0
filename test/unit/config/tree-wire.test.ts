// The packed form of a parsed file (rule-sources/files/tree-wire.ts): what goes in comes out, whatever the tree.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { runThrough } from "../../../src/engine/base/long-work.ts";
import type { MappingEntry, ScalarNode, SourceFile, SourceNode } from "../../../src/engine/rules/source.ts";
import { parseFile } from "../../../src/rule-sources/files/parse-file.ts";
import { packFile, unpackFile } from "../../../src/rule-sources/files/tree-wire.ts";
import { runs } from "../../support/runs.ts";

const at = { file: "a.yaml", line: 3, column: 7 };

const scalar: fc.Arbitrary<ScalarNode> = fc.record({
  kind: fc.constant("scalar" as const),
  at: fc.record({ file: fc.constant("a.yaml"), line: fc.integer({ min: 1 }), column: fc.integer({ min: 1 }) }),
  text: fc.string({ unit: "binary", maxLength: 20 }),
  isQuoted: fc.boolean(),
  value: fc.oneof(
    fc.constant({ type: "null" as const }),
    fc.constant({ type: "text" as const }),
    fc.record({ type: fc.constant("boolean" as const), boolean: fc.boolean() }),
    fc.record({ type: fc.constantFrom("integer", "large integer", "float"), number: fc.double() }),
    fc.record({ type: fc.constant("binary" as const), bytes: fc.string({ maxLength: 5 }) }),
  ),
}) as fc.Arbitrary<ScalarNode>;

const { tree } = fc.letrec<{ tree: SourceNode }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4 },
    scalar,
    fc.record({ kind: fc.constant("sequence" as const), at: fc.constant(at), items: fc.array(tie("tree")) }),
    fc.record({
      kind: fc.constant("mapping" as const),
      at: fc.constant(at),
      entries: fc.array(
        fc.record({ key: scalar, value: tie("tree"), isMerged: fc.boolean() }) as fc.Arbitrary<MappingEntry>,
      ),
    }),
  ) as fc.Arbitrary<SourceNode>,
}));

describe("a parsed file on its way between threads", () => {
  test("arrives as it left", () => {
    fc.assert(
      fc.property(tree, (root) => {
        const file: SourceFile = { name: "a.yaml", root, problems: [] };
        expect(runThrough(unpackFile(structuredClone(packFile(file))))).toEqual(file);
      }),
      { numRuns: runs(200) },
    );
  });

  test("keeps its aliases one node, so that it grows no larger than it was", () => {
    const file = parseFile({ name: "a.yaml", bytes: Buffer.from("a: &x {b: [1, no, ~, 2.5]}\nc: *x\nd: {<<: *x}\n") });
    const arrived = runThrough(unpackFile(packFile(file)));
    expect(arrived).toEqual(file);
    const entries = arrived.root?.kind === "mapping" ? arrived.root.entries : [];
    expect(entries[0]?.value).toBe(entries[1]?.value);
  });
});
