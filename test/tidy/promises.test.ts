// docs/promises.md says what marks in the tests say, and each mark is at a test.

import { expect, test } from "vitest";
import { promiseMarks, promisesPage, THEMES } from "../support/promises-page.ts";

/** A promise is a sentence that fits on a line. */
const LENGTH_MAX = 125;

test("docs/promises.md is what the marks in the tests say (-u writes it again)", async () => {
  await expect(promisesPage()).toMatchFileSnapshot("../../docs/promises.md");
});

test("each mark is right above a test or its block, and is one sentence of a theme", () => {
  const wrong = promiseMarks().filter(
    ({ theme, sentence, below }) =>
      THEMES[theme] === undefined ||
      !/^[A-Z`\d].*\.$/.test(sentence) ||
      sentence.length > LENGTH_MAX ||
      !/^(test|describe)\b/.test(below),
  );
  expect(wrong).toEqual([]);
});
