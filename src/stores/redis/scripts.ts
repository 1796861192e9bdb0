// The scripts of lua/, put together from its files. Read once, at start; text and hash are never typed in. The head of lua/take.lua explains
// the comments that name what is inserted; test/lua/scripts.test.ts checks the folder.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { InvariantError } from "../../base/invariant.ts";

/** The script as Redis knows it. */
export interface Script {
  readonly text: string;
  /** Its SHA-1 in hex, which EVALSHA takes. */
  readonly sha: string;
}

/** All scripts of takes. */
export interface Scripts {
  readonly takes: Script;
  readonly counters: Script;
}

/** What the scripts begin with; these files name all others. */
const FIRST_FILES = ["prelude.lua", "token_bucket.lua", "take.lua"] as const;
const COUNTER_FILES = ["prelude.lua", "counters.lua"] as const;

/** The constants of algorithms and the files of their pieces, in the order in which the script asks for them. */
const ALGORITHMS = [
  ["TOKEN_BUCKET", "token_bucket.lua"],
  ["SLIDING_WINDOW", "sliding_window.lua"],
  ["FIXED_WINDOW", "fixed_window.lua"],
  ["CALENDAR_WINDOW", "calendar_window.lua"],
  ["SLIDING_LOG", "sliding_log.lua"],
] as const;

// lua/ is as many levels above src/stores/redis as above dist/stores/redis.
const LUA_FOLDER = new URL("../../../lua/", import.meta.url);

/** Reads and joins the files of the script of takes. Throws if one is missing, because the package is incomplete then. */
export function loadScript(): Script {
  return scriptOf(FIRST_FILES);
}

/** The same for all scripts. */
export function loadAllScripts(): Scripts {
  return { takes: loadScript(), counters: scriptOf(COUNTER_FILES) };
}

function scriptOf(files: readonly string[]): Script {
  const text = writeConstantsOut(files.map(textOf).join("\n"));
  return { text, sha: createHash("sha1").update(text).digest("hex") };
}

/** The script of limits at run time, which is rarely called and so sent as text. */
export function textOfRuntimeScript(): string {
  return readFileSync(new URL("runtime_limits.lua", LUA_FOLDER), "utf8");
}

/** The file's text before its pieces, with all that it inserts. */
function textOf(file: string): string {
  return insert(piecesOf(file).get("") ?? "", file);
}

function insert(text: string, file: string): string {
  return text.replace(/^ *-- (FILE|EACH|INSERT) (\S+)$/gm, (_, what: string, name: string) => {
    if (what === "FILE") return textOf(name);
    if (what === "EACH") return branches(name);
    return pieceOf(file, name) ?? missing(file, name);
  });
}

/** The piece of every algorithm that has it, in a branch of its own. */
function branches(name: string): string {
  const each = ALGORITHMS.flatMap(([constant, file]) => {
    const piece = pieceOf(file, name);
    return piece === undefined ? [] : [`if algorithm == ${constant} then\n${piece}`];
  });
  return each.length === 0 ? missing("any file", name) : `${each.join("else")}end`;
}

function pieceOf(file: string, name: string): string | undefined {
  const piece = piecesOf(file).get(name);
  return piece === undefined ? undefined : insert(piece, file);
}

/** The pieces of a file by their names; the text before them has none. */
function piecesOf(file: string): ReadonlyMap<string, string> {
  const [head = "", ...pieces] = readFileSync(new URL(file, LUA_FOLDER), "utf8").split(/^-- PIECE /m);
  return new Map([["", head], ...pieces.map((piece) => split(piece))]);
}

function split(piece: string): [name: string, text: string] {
  const end = piece.indexOf("\n");
  return [piece.slice(0, end), piece.slice(end + 1)];
}

function missing(file: string, name: string): never {
  throw new InvariantError(`${file} has no piece ${name}`);
}

const CONSTANTS = /^local ([A-Z][A-Z0-9_]*(?:, [A-Z][A-Z0-9_]*)*) = (-?\d+(?:, -?\d+)*)(?= *(?:--.*)?$)/gm;

/**
 * Puts numbers in place of the names of constants. Lua makes an object for every local that functions share, and a script makes
 * its functions again in each call (`node bench/store/script-cost.mjs`).
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
