// What `headgate mirror` refuses before it does anything. What it does is tried in test/integration/mirror.test.ts.

import { expect, test } from "vitest";
import { runProgram } from "../../../support/run-program.ts";

test.each([
  { args: ["mirror"], why: "--answer-from <host:port>' not specified" },
  { args: ["mirror", "--answer-from", "a:1"], why: "give --compare-with, --record or both" },
  { args: ["mirror", "--answer-from", "a:70000"], why: "Expected host:port" },
  { args: ["mirror", "--answer-from", "a:1", "--ignore", "headers,footers"], why: "Expected" },
  { args: ["mirror", "replay", "--target", "a:1"], why: "missing required argument 'file'" },
  { args: ["mirror", "replay", "f"], why: "--target <host:port>' not specified" },
  { args: ["mirror", "replay", "f", "--target", "a:1", "--speed", "0x"], why: "Expected a factor such as 2x" },
  { args: ["mirror", "replay", "f", "--target", "a:1", "--tolerate", "101%"], why: "Expected a share such as 1%" },
])("$args is refused: $why", async ({ args, why }) => {
  const run = await runProgram(args);
  expect(run.exitCode).toBe(2);
  expect(run.err).toContain(why);
});

test.each([["mirror"], ["mirror replay"]])("help of %s shows defaults as they are typed", async (command) => {
  const { out } = await runProgram([...command.split(" "), "--help"]);
  const defaults = [...out.replace(/\s+/g, " ").matchAll(/--([\w-]+) <[^>]+>[^(]*?\(default: ([^)]*)\)/g)];
  expect(defaults.length).toBeGreaterThan(4);
  for (const [, name = "", value = ""] of defaults) {
    expect([name, value]).toEqual([name, expect.stringMatching(/^[\w.:%]+$|^"\w+"$|^1 at max, else 256$/)]);
  }
  expect(out).toContain("(default: 1s)");
});
