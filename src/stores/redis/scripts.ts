// The table of lua/: which files there are and how they are put together. Read once, at start; texts and hashes are never
// typed in. test/lua/scripts.test.ts holds this table and the folder equal.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

/** Files of algorithms, and what some share: each runs when a call first uses it (`use` in call.lua). */
const MODULE_FILES = [
  "token_bucket.lua",
  "aligned_window.lua",
  "sliding_window.lua",
  "fixed_window.lua",
  "calendar_window.lua",
  "sliding_log.lua",
  "counter.lua",
  "holds.lua",
] as const;

/** Functions that both scripts use. */
const SHARED_FILES = ["refill.lua", "calendar_edges.lua"] as const;

/** What each script is joined of; its entry file is the last one. What a file uses stands before it. */
export const LUA_FILES = {
  takeAll: [
    "prelude.lua",
    ...SHARED_FILES,
    "numbers.lua",
    "string_state.lua",
    "call.lua",
    ...MODULE_FILES,
    "take_all.lua",
  ],
  takeEach: ["prelude.lua", ...SHARED_FILES, "take_each.lua"],
} as const;

const MODULES: ReadonlySet<string> = new Set(MODULE_FILES);

/** A script as Redis knows it. */
interface Script {
  readonly text: string;
  /** What EVALSHA calls it by. */
  readonly sha: string;
}

/** The scripts that a store calls. */
export interface Scripts {
  /** For any batch. */
  readonly takeAll: Script;
  /** For a batch of groups of one plain take each (lua/take_each.lua says which); quicker. */
  readonly takeEach: Script;
}

// The same depth below the package's root in src/ and in dist/.
const LUA_FOLDER = new URL("../../../lua/", import.meta.url);

/** Reads and joins the files. Throws when one is missing: the package is broken then. */
export function loadScripts(): Scripts {
  return { takeAll: join(LUA_FILES.takeAll), takeEach: join(LUA_FILES.takeEach) };
}

function join(files: readonly string[]): Script {
  const text = writeConstantsOut(files.map((file) => (MODULES.has(file) ? moduleOf(file) : readLua(file))).join("\n"));
  return { text, sha: createHash("sha1").update(text).digest("hex") };
}

const CONSTANTS = /^local ([A-Z][A-Z0-9_]*(?:, [A-Z][A-Z0-9_]*)*) = (\d+(?:, \d+)*)(?= *(?:--.*)?$)/gm;

/**
 * Puts numbers in place of the names of constants. Lua makes an object for every local that functions share, and a script makes
 * its functions anew in each call: that was a sixth of a lone call of take_all.lua (`node bench/store/script-cost.mjs`).
 */
function writeConstantsOut(text: string): string {
  const values = new Map<string, string>();
  const rest = text.replace(CONSTANTS, (_, names: string, numbers: string) => {
    const each = numbers.split(", ");
    for (const [i, name] of names.split(", ").entries()) values.set(name, each[i] ?? "");
    return "";
  });
  return rest.replace(/\b[A-Z][A-Z0-9_]*\b/g, (name) => values.get(name) ?? name);
}

function moduleOf(file: string): string {
  return `MODULES['${file.slice(0, -".lua".length)}'] = function()\n${readLua(file)}end\n`;
}

function readLua(file: string): string {
  return readFileSync(new URL(file, LUA_FOLDER), "utf8");
}
