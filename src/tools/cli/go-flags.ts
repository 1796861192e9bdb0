// Reads flags as Go programs take them: -name value, -name=value, one dash or two, bare -name for booleans, `--` ends them.

import { BOOLEAN } from "../../process/settings/value-types.ts";

/** Kinds of flags by name: of a `text` the last value counts, a `list` has all values, a `boolean` needs none. */
export type FlagKinds = Readonly<Record<string, "text" | "list" | "boolean">>;

/** What was given, and everything after the flags. */
interface GoFlags {
  /** The last value of a `text` flag, `true` or `false` of a `boolean` one. */
  readonly values: ReadonlyMap<string, string>;
  readonly lists: ReadonlyMap<string, readonly string[]>;
  readonly rest: readonly string[];
}

/** The flags are wrong; the message is one line for a person. */
export class FlagError extends Error {
  override readonly name = "FlagError";
}

/** Reads all flags up to the first other argument. Throws FlagError. */
export function parseGoFlags(args: readonly string[], kinds: FlagKinds): GoFlags {
  const values = new Map<string, string>();
  const lists = new Map<string, string[]>();
  let i = 0;
  while (i < args.length) {
    const arg = args[i] ?? "";
    if (!/^-./.test(arg)) break;
    i++;
    if (arg === "--") break;
    const [, name = "", given] = /^--?([^=]*)(?:=(.*))?$/s.exec(arg) ?? [];
    const kind = kindOf(name, kinds);
    if (kind === "boolean") {
      values.set(name, booleanText(name, given ?? "true"));
      continue;
    }
    const value = given ?? args[i++];
    if (value === undefined) throw new FlagError(`flag -${name} needs a value`);
    if (kind === "text") values.set(name, value);
    else lists.set(name, [...(lists.get(name) ?? []), value]);
  }
  return { values, lists, rest: args.slice(i) };
}

function kindOf(name: string, kinds: FlagKinds): FlagKinds[string] {
  const kind = Object.hasOwn(kinds, name) ? kinds[name] : undefined;
  if (kind === undefined) throw new FlagError(`there is no flag -${name}`);
  return kind;
}

function booleanText(name: string, text: string): string {
  const value = BOOLEAN.parse(text);
  if (value === undefined) throw new FlagError(`flag -${name} takes ${BOOLEAN.expects}, got '${text}'`);
  return BOOLEAN.show(value);
}
