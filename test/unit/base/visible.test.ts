// Text for somebody's eyes, whatever it holds: nothing in it moves a cursor, breaks a line, turns writing around or hides.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { visible, visibleJson, visibleLines } from "../../../src/base/visible.ts";
import { createLogger } from "../../../src/operate/telemetry/logger.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { runs } from "../../support/runs.ts";

/** By an oracle of its own: code points that terminals and browsers act on, or don't draw. */
function hidesSomething(text: string): boolean {
  return [...text].some((char) => {
    const code = char.codePointAt(0) ?? 0;
    const isControl = code < 0x20 || (code >= 0x7f && code < 0xa0);
    const isDirection = code === 0x61c || (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e);
    const isUnseen =
      (code >= 0x2060 && code <= 0x206f) || code === 0xfeff || code === 0xad || code >> 7 === 0xe0000 >> 7;
    return isControl || isDirection || isUnseen || (code >= 0xd800 && code < 0xe000);
  });
}

const point = fc.oneof(
  fc.integer({ min: 0, max: 0xff }),
  fc.integer({ min: 0x2000, max: 0x206f }),
  fc.constantFrom(0x61c, 0xad, 0xfeff, 0xe0001, 0xe0041, 0xd800, 0xdfff, 0x1f600, 0x9375),
);
const text = fc.array(point, { maxLength: 30 }).map((points) => String.fromCodePoint(...points));

describe("text with anything in it", () => {
  // Promise(input): Text of callers shows every control character and mark of direction in terminals, logs and pages.
  test("hides nothing, on one line or on several, and as JSON means the same", () => {
    fc.assert(
      fc.property(text, (given) => {
        expect(hidesSomething(visible(given))).toBe(false);
        expect(hidesSomething(visibleLines(given).replaceAll(/[\n\t]/g, ""))).toBe(false);
        const json = visibleJson(JSON.stringify({ [given]: [given] }, null, 2));
        expect(hidesSomething(json.replaceAll("\n", ""))).toBe(false);
        expect(JSON.parse(json)).toEqual({ [given]: [given] });
      }),
      { numRuns: runs(500) },
    );
  });

  test.each(["json", "text"] as const)("hides nothing in the log as %s, wherever it stands", (format) => {
    fc.assert(
      fc.property(text, (given) => {
        const lines: string[] = [];
        const write = (line: string) => lines.push(line);
        const logger = createLogger({ level: "info", format, clock: new ManualClock(), secrets: [], write });
        const err = new Error(given);
        err.stack = `Error: ${given}\n    at ${given.replaceAll("\n", " ")}`;
        logger.info({ name: given, list: [given], err }, given);
        expect(lines).toHaveLength(1);
        expect(hidesSomething((lines[0] ?? "").replaceAll("\n", ""))).toBe(false);
      }),
      { numRuns: runs(200) },
    );
  });
});

test("what hides something is shown by its number, other letters stay", () => {
  expect(visible("a\n\x1b[1m\u009b\u202e\u{e0041}ü✓")).toBe("a\\x0a\\x1b[1m\\x9b\\u202e\\u{e0041}ü✓");
  expect(visibleLines("a\nb\tc\r")).toBe("a\nb\tc\\x0d");
});
