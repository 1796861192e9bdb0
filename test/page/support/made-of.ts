// What the pictures of the docs are made of: a digest of the page and of the scenes that they show.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../../..");

/** Kept next to the pictures, in this file. */
export const DIGEST_FILE = "made-of.txt";

/** Another one when a picture would show something else, and now and then when it would not. */
export function digestOfPictures(): string {
  const files = readdirSync(resolve(ROOT, "page")).flatMap((name) => (name.endsWith(".d.ts") ? [] : `page/${name}`));
  const hash = createHash("sha256");
  for (const file of [...files, "test/page/support/scenes.ts", "test/page/pictures.test.ts"].sort()) {
    hash.update(`${file}\0${readFileSync(resolve(ROOT, file), "utf8")}\0`);
  }
  return `${hash.digest("hex")}\n`;
}
