// Mistakes that can be made in a line of TypeScript or Lua, and which of them a seed draws.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { transformWithOxc } from "vite";

/** What stands in a line, and what takes its place. */
const SWAPS = [
  [" < ", " <= "],
  [" <= ", " < "],
  [" > ", " >= "],
  [" >= ", " > "],
  [" === ", " !== "],
  [" !== ", " === "],
  [" && ", " || "],
  [" || ", " && "],
  [" + ", " - "],
  [" - ", " + "],
  [" * ", " / "],
  [" += ", " -= "],
  [" -= ", " += "],
  [" ?? ", " && "],
  ["Math.floor(", "Math.ceil("],
  ["Math.ceil(", "Math.floor("],
  ["math.floor(", "math.ceil("],
  ["Math.min(", "Math.max("],
  ["Math.max(", "Math.min("],
  ["math.min(", "math.max("],
  ["math.max(", "math.min("],
  ["divideDown(", "divideUp("],
  ["divideUp(", "divideDown("],
  ["true", "false"],
  ["false", "true"],
];
const SWAPS_OF_LUA = [
  [" == ", " ~= "],
  [" ~= ", " == "],
  [" and ", " or "],
  [" or ", " and "],
  ["not ", ""],
];
const NOT_CODE = /^\s*(?:\/\/|\/?\*|--|import\b|(?:export )?(?:type|interface)\b|readonly\b|[}\])]|$)/;
const STATEMENT = /^\s*(?:this\.|[a-z]\w*(?:\.|\[|\(| [-+]?= ))[^{}]*[;)]$/;
const STATEMENT_OF_LUA = /^\s*[a-z]\w*(?:[.[][^=]*)?(?: = [^{]*|\([^{]*\))$/;
const CONDITION = /^(\s*(?:\} else )?if \()(.*)(\)(?: \{| [^)]*;)?)$/;
const CONDITION_OF_LUA = /^(\s*(?:else)?if )(.*)( then.*)$/;

/** Every mistake that can be made in a line. */
function mistakesIn(line, isLua) {
  if (NOT_CODE.test(line)) return [];
  const code = line.replace(isLua ? /\s*--.*$/ : /\s*\/\/.*$/, "");
  const mistakes = [];
  for (const [text, by] of isLua ? [...SWAPS, ...SWAPS_OF_LUA] : SWAPS) {
    for (let at = code.indexOf(text); at >= 0; at = code.indexOf(text, at + 1))
      if (!isQuoted(code, at)) mistakes.push(code.slice(0, at) + by + code.slice(at + text.length));
  }
  for (const { 0: number, index } of code.matchAll(/(?<![\w."'])\d[\d_]*(?![\w."'])/g))
    if (!isQuoted(code, index))
      mistakes.push(
        code.slice(0, index) + (Number(number.replaceAll("_", "")) + 1) + code.slice(index + number.length),
      );
  const [, head, condition, rest] = (isLua ? CONDITION_OF_LUA : CONDITION).exec(code) ?? [];
  if (head !== undefined) {
    const [and, or] = isLua ? ["false and", "true or"] : ["false &&", "true ||"];
    mistakes.push(`${head}${and} (${condition})${rest}`, `${head}${or} (${condition})${rest}`);
  }
  if ((isLua ? STATEMENT_OF_LUA : STATEMENT).test(code)) mistakes.push(code.replace(/\S.*/, ""));
  return mistakes;
}

/** True within words for people: an odd number of quotes of a kind before. */
function isQuoted(code, at) {
  const before = code.slice(0, at);
  return ['"', "`"].some((quote) => before.split(quote).length % 2 === 0);
}

/** Numbers below `end` that follow from the seed. */
export function random(seed) {
  let state = seed >>> 0;
  return (end) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * end);
  };
}

/** Draws so many mistakes of the files: different ones, each of which makes another program. */
export async function draw(root, files, count, chance) {
  const drawn = [];
  const seen = new Set();
  for (let tries = 0; drawn.length < count && tries < count * 1_000; tries++) {
    const file = files[chance(files.length)];
    const text = readFileSync(join(root, file), "utf8");
    const lines = text.split("\n");
    const at = chance(lines.length);
    const mistakes = mistakesIn(lines[at], file.endsWith(".lua"));
    if (mistakes.length === 0) continue;
    const by = mistakes[chance(mistakes.length)];
    const wrong = lines.with(at, by).join("\n");
    if (seen.has(`${file}:${at}:${by}`)) continue;
    if (!(await makesAnother(file, text, wrong))) continue;
    seen.add(`${file}:${at}:${by}`);
    drawn.push({ file, at, was: lines[at], by });
  }
  return drawn;
}

/** False for what is no program, and for a change of types only. */
async function makesAnother(file, text, wrong) {
  if (file.endsWith(".lua")) return true;
  const [right, other] = await Promise.all([compiled(file, text), compiled(file, wrong)]);
  return other !== undefined && other !== right;
}

async function compiled(file, text) {
  try {
    return (await transformWithOxc(text, file, { sourcemap: false })).code;
  } catch {
    return undefined;
  }
}
