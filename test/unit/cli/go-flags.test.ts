// Flags as Go programs take them, and what is said of wrong ones.

import { describe, expect, test } from "vitest";
import { FlagError, type FlagKinds, parseGoFlags } from "../../../src/tools/cli/go-flags.ts";

const KINDS: FlagKinds = { name: "text", many: "list", on: "boolean" };

describe("flags of Go programs", () => {
  test.each([
    { args: ["-name", "a"], values: { name: "a" } },
    { args: ["--name", "a"], values: { name: "a" } },
    { args: ["-name=a=b"], values: { name: "a=b" } },
    { args: ["-name="], values: { name: "" } },
    { args: ["-name", "-on"], values: { name: "-on" } },
    { args: ["-name", "a", "-name", "b"], values: { name: "b" } },
    { args: ["-on", "-name", "a"], values: { on: "true", name: "a" } },
    { args: ["-on=F"], values: { on: "false" } },
    { args: [], values: {} },
  ])("$args", ({ args, values }) => {
    expect(Object.fromEntries(parseGoFlags(args, KINDS).values)).toEqual(values);
  });

  test("that repeat add up in their order", () => {
    expect(parseGoFlags(["-many", "a", "--many=b"], KINDS).lists.get("many")).toEqual(["a", "b"]);
  });

  test("end at the first other argument, at a lone dash, and behind two", () => {
    expect(parseGoFlags(["-on", "x", "-name", "a"], KINDS).rest).toEqual(["x", "-name", "a"]);
    expect(parseGoFlags(["-", "-on"], KINDS).rest).toEqual(["-", "-on"]);
    expect(parseGoFlags(["--", "-on"], KINDS).rest).toEqual(["-on"]);
  });

  test.each([
    { args: ["-nmae", "a"], why: "there is no flag -nmae" },
    { args: ["-constructor"], why: "there is no flag -constructor" },
    { args: ["-name"], why: "flag -name needs a value" },
    { args: ["-on=perhaps"], why: "flag -on takes true or false, got 'perhaps'" },
  ])("$args is refused: $why", ({ args, why }) => {
    expect(() => parseGoFlags(args, KINDS)).toThrow(new FlagError(why));
  });
});
