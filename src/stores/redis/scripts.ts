// The scripts of lua/: the files of each, and how they are joined. Read once, at start; texts and hashes are never typed in.
// test/lua/scripts.test.ts keeps this table and the folder equal.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

/** Files of algorithms, and files that some of them share; each runs when a call first needs it (`use` in call.lua). */
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

/** The files of each script in order: a file comes after those that it uses, so the entry file is the last. */
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
  /** Its SHA-1 in hex, which EVALSHA takes. */
  readonly sha: string;
}

/** The scripts that a store calls. */
export interface Scripts {
  /** For any batch. */
  readonly takeAll: Script;
  /** For a batch whose groups have one plain take each (lua/take_each.lua states the conditions); faster. */
  readonly takeEach: Script;
}

// lua/ is as many levels above src/stores/redis as above dist/stores/redis.
const LUA_FOLDER = new URL("../../../lua/", import.meta.url);

/** Reads and joins the files. Throws if one is missing, because the package is incomplete then. */
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
