// The pictures in the docs show the page as it is.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { DIGEST_FILE, digestOfPictures } from "../../page/support/made-of.ts";

const PICTURES = resolve(import.meta.dirname, "../../../docs/pictures");

test("the page and its scenes are those that the pictures were taken of; `npm run page:pictures` takes them again", () => {
  expect(readFileSync(resolve(PICTURES, DIGEST_FILE), "utf8")).toBe(digestOfPictures());
});
