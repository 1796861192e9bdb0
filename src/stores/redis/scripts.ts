// The scripts of lua/: each a list of its files, joined in order. Read once, at start; text and hash are never typed
// in. test/lua/scripts.test.ts checks the folder.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

/** The script as Redis knows it. */
export interface Script {
  readonly text: string;
  /** Its SHA-1 in hex, which EVALSHA takes. */
  readonly sha: string;
}

const ALGORITHM_FILES = [
  "token_bucket.lua",
  "windows.lua",
  "sliding_window.lua",
  "fixed_window.lua",
  "calendar_window.lua",
  "sliding_log.lua",
] as const;

/** The files of each script. The last one is its entry. */
export const SCRIPT_FILES = {
  takes: ["prelude.lua", ...ALGORITHM_FILES, "settlement.lua", "take.lua"],
  /** The same for calls some of whose limits have holds. */
  holds: ["prelude.lua", ...ALGORITHM_FILES, "settlement.lua", "debt_lows.lua", "holds.lua", "take.lua"],
  counters: ["prelude.lua", "counters.lua"],
} as const;

/** All scripts of takes. */
export type Scripts = Readonly<Record<keyof typeof SCRIPT_FILES, Script>>;

// lua/ is as many levels above src/stores/redis as above dist/stores/redis.
const LUA_FOLDER = new URL("../../../lua/", import.meta.url);

/** Reads all scripts of takes. Throws if a file is missing, because the package is incomplete then. */
export function loadScripts(): Scripts {
  return {
    takes: scriptOf(SCRIPT_FILES.takes),
    holds: scriptOf(SCRIPT_FILES.holds),
    counters: scriptOf(SCRIPT_FILES.counters),
  };
}

/** The script of limits at run time, which is rarely called and so sent as text. */
export function textOfRuntimeScript(): string {
  return textOf("runtime_limits.lua");
}

function scriptOf(files: readonly string[]): Script {
  const text = files.map(textOf).join("\n");
  return { text, sha: createHash("sha1").update(text).digest("hex") };
}

function textOf(file: string): string {
  return readFileSync(new URL(file, LUA_FOLDER), "utf8");
}
