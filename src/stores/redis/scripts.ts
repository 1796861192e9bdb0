// The table of lua/: which files there are and how they are put together. Read once, at start; the text and its hash are
// never typed in. test/lua/scripts.test.ts holds this table and the folder equal.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

/** Files of lua/ in the order they are joined: what a file uses stands before it. The last one is the entry script. */
export const LUA_FILES = [
  "prelude.lua",
  "token_bucket.lua",
  "aligned_window.lua",
  "sliding_window.lua",
  "fixed_window.lua",
  "sliding_log.lua",
  "counter.lua",
  "take_all.lua",
] as const;

/** A script as Redis knows it. */
export interface Script {
  readonly text: string;
  /** What EVALSHA calls it by. */
  readonly sha: string;
}

// The same depth below the package's root in src/ and in dist/.
const LUA_FOLDER = new URL("../../../lua/", import.meta.url);

/** Reads and joins the files. Throws when one is missing: the package is broken then. */
export function loadTakeAll(): Script {
  const text = LUA_FILES.map((file) => readFileSync(new URL(file, LUA_FOLDER), "utf8")).join("\n");
  return { text, sha: createHash("sha1").update(text).digest("hex") };
}
