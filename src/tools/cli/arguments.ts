// What is typed on a command line: descriptors, addresses, numbers.

import { InvalidArgumentError } from "commander";
import { visible } from "../../engine/base/visible.ts";
import { looksLikeTwo, readTyped } from "../../engine/domain/entry-text.ts";
import type { WrittenEntry } from "../../engine/domain/request.ts";
import { LISTEN_ADDRESS } from "../../process/settings/value-types.ts";
import { paint, type Terminal } from "./terminal.ts";

/** A descriptor as typed. */
export type TypedDescriptor = readonly WrittenEntry[];

/** Reads `key=value,key2=value2`, and warns of a value that looks like two entries. */
export function descriptorParser(terminal: Terminal): (text: string) => TypedDescriptor {
  return (text) => {
    const entries = readTyped(text);
    if (typeof entries === "string") throw expected(entries);
    const doubt = looksLikeTwo(entries);
    if (doubt !== undefined) terminal.err(`${paint(terminal, "yellow", visible(`warning: ${doubt}`))}\n`);
    return entries;
  };
}

/** The same for values that must be text. */
export function textParser(terminal: Terminal): (text: string) => TypedDescriptor {
  const parse = descriptorParser(terminal);
  return (text) => {
    const entries = parse(text);
    const odd = entries.find(({ valueBase64 }) => valueBase64 !== undefined);
    if (odd !== undefined) throw expected(`expected UTF-8 as the value of '${odd.key}', got '${text}'`);
    return entries;
  };
}

/** Reads `host:port`. */
export function parseAuthority(text: string): string {
  const address = LISTEN_ADDRESS.parse(text);
  if (address !== undefined && address.port > 0 && !text.startsWith(":")) return text;
  const hint = /^\w+:\/\//.test(text) ? " without a scheme" : "";
  throw expected(`expected host:port${hint}, got '${text}'`);
}

/** For options that repeat. */
export function collect<T>(
  parse: (text: string) => T,
): (text: string, before: readonly T[] | undefined) => readonly T[] {
  return (text, before = []) => [...before, parse(text)];
}

/** A whole number within bounds, for options. */
export function parseWhole(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw expected(`expected a whole number from ${min} to ${max}`);
  };
}

function expected(says: string): InvalidArgumentError {
  return new InvalidArgumentError(`${says.charAt(0).toUpperCase()}${visible(says.slice(1))}.`);
}

/** With several descriptors of one entry a blank was perhaps typed for a comma. `unmet`: places of those that met no rule. */
export function unmetText(unmet: readonly number[], asked: readonly TypedDescriptor[]): string {
  if (unmet.length === 0 || asked.length < 2 || asked.some(({ length }) => length > 1)) return "";
  const places = unmet.map((at) => at + 1).join(", ");
  return `\nNo limit for descriptor ${places} of ${asked.length}. Commas separate the entries of a descriptor.\n`;
}
