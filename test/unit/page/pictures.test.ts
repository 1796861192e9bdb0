// The pictures in the docs show the page as it is.

import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { DIGEST_FILE, digestOfPictures } from "../../page/support/made-of.ts";

const PICTURES = resolve(import.meta.dirname, "../../../docs/pictures");

test("the page and its scenes are those that the pictures were taken of; `npm run page:pictures` takes them again", () => {
  expect(readFileSync(resolve(PICTURES, DIGEST_FILE), "utf8")).toBe(digestOfPictures());
});

test("the page is small: at most 130 KB without any byte from elsewhere", () => {
  const folder = resolve(import.meta.dirname, "../../../page");
  const names = readdirSync(folder).filter((name) => !name.endsWith(".d.ts"));
  const texts = names.map((name) => readFileSync(resolve(folder, name)));
  expect(texts.reduce((sum, { length }) => sum + length, 0)).toBeLessThanOrEqual(130 * 1_024);
  expect(texts.join("\n").replaceAll("http://www.w3.org/2000/svg", "")).not.toMatch(
    /(?:src|href|url\()\s*[=(]?\s*["']?https?:/,
  );
});
