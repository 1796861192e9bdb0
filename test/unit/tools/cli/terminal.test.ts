// How text looks on a terminal.

import { expect, onTestFinished, test } from "vitest";
import { processTerminal, wrap } from "../../../../src/tools/cli/terminal.ts";

test.each([
  { name: "short text as it is", text: "a b", width: 10, expected: "a b" },
  { name: "long text at blanks", text: "aaa bbb ccc", width: 7, expected: "aaa bbb\nccc" },
  { name: "a long word whole", text: "a bbbbbbbbbb c", width: 4, expected: "a\nbbbbbbbbbb\nc" },
  { name: "empty text as it is", text: "", width: 4, expected: "" },
])("wrap leaves or breaks $name", ({ text, width, expected }) => {
  expect(wrap(text, width)).toBe(expected);
});

test("wrap begins the first line and the others as given", () => {
  expect(wrap("aaa bbb ccc", 8, "- ", "  ")).toBe("- aaa\n  bbb\n  ccc");
});

test.each([
  [undefined, 80],
  [0, 80],
  [20, 40],
  [90, 90],
  [500, 100],
])("a terminal that says %s columns has lines of %s", (columns, width) => {
  const was = Object.getOwnPropertyDescriptor(process.stdout, "columns");
  onTestFinished(() => {
    Object.defineProperty(process.stdout, "columns", was ?? { value: undefined, configurable: true, writable: true });
  });
  Object.defineProperty(process.stdout, "columns", { value: columns, configurable: true, writable: true });
  expect(processTerminal().columns).toBe(width);
});
