// Every setting with every kind of nonsense: the start is refused with a sentence that names the variable, or goes on.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ConfigError } from "../../src/base/errors.ts";
import { readSettings, tableRows } from "../../src/settings/settings.ts";
import { part, runs, runsMs } from "../support/runs.ts";

const NAMES = tableRows().map(([, setting]) => setting.name);
const SECRETS = new Set(tableRows().flatMap(([, setting]) => (setting.type.isSecret ? [setting.name] : [])));
/** Longest that one setting may make a message. */
const MESSAGE_CHARS_MAX = 1_000;
/** The system passes no longer ones on. */
const HUGE = 130_000;

const NONSENSE: readonly (readonly [name: string, text: string])[] = [
  ["nothing", ""],
  ["blanks", "  \t "],
  ["a line feed", "a\nb"],
  ["a NUL", "a\0b"],
  ["an escape", "\x1b[2J\x1b]0;x\x07"],
  ["other scripts", "größe 鍵 🗝️"],
  ["half a surrogate pair", "\ud800"],
  ["a minus", "-1"],
  ["too much", "99999999999999999999999999"],
  ["scientific", "1e999"],
  ["not a number", "NaN"],
  ["hexadecimal", "0x10"],
  ["a list", "[1,2,3]"],
  ["an object", '{"__proto__":{"a":1}}'],
  ["a property of every object", "constructor"],
  ["a broken escape", "%zz%"],
  ["a path up", "../../../../etc/passwd"],
  ["a URL with everything", "redis://u:p@[::1%25x]:99999/99?db=x&sentinel_password=#f"],
  ["commas", ",,,,"],
  ["colons", "::::"],
  ["slashes", "////"],
  ["something huge", "a".repeat(HUGE)],
  ["huge digits", "9".repeat(HUGE)],
  ["huge commas", ",".repeat(HUGE)],
  ["huge brackets", "[".repeat(HUGE)],
  ["huge durations", "1h".repeat(HUGE / 2)],
  ["huge URL", `redis://${"a,".repeat(HUGE / 2)}`],
];

/** The message of a refusal; undefined if the settings were read. Anything else that is thrown fails the test. */
function refusalOf(env: Readonly<Record<string, string>>): string | undefined {
  try {
    expect(Object.isFrozen(readSettings(env))).toBe(true);
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    const { code, message, problems } = error as ConfigError;
    expect(code).toBe("CONFIG_SETTINGS");
    expect(problems.length).toBeGreaterThan(0);
    for (const problem of problems) expect(problem.length).toBeLessThan(MESSAGE_CHARS_MAX);
    return message;
  }
}

describe.each(part(NONSENSE))("%s", (_name, text) => {
  test("in any one setting is refused by name, or taken", () => {
    for (const name of NAMES) {
      const refusal = refusalOf({ [name]: text });
      if (refusal === undefined) continue;
      expect(refusal, name).toMatch(/\b[A-Z][A-Z0-9_]+: /);
      if (SECRETS.has(name) && text.trim().length > 3) expect(refusal).not.toContain(text.trim());
      const control = [...refusal].find((char) => char < " " && char !== "\n");
      expect(control, `${name} brings a control character into its message`).toBeUndefined();
    }
  });
});

// Promise(input): Any text in a setting is accepted, or ends the start with the setting's name.
test(
  "any text in any settings at once is refused by names, or taken",
  () => {
    const text = fc.oneof(
      fc.constantFrom(...NONSENSE.map(([, nonsense]) => nonsense).filter(({ length }) => length < 100)),
      fc.string({ unit: "binary", maxLength: 40 }),
      fc.constantFrom("true", "false", "0", "1", "10s", "redis", "postgres", "memory", "127.0.0.1:6379", "8080"),
    );
    const some = fc.dictionary(fc.constantFrom(...NAMES), text, { maxKeys: 12 });
    fc.assert(
      fc.property(some, (env) => void refusalOf(env)),
      { numRuns: runs(150) },
    );
  },
  runsMs(20_000),
);
