// How the fields of a log become a call: which field is its time, and which make up the entries of its descriptors.

import { AMOUNT_MAX } from "../../../base/units.ts";
import type { RecordedCall } from "../../mirror/read-recording.ts";
import { type CallDescriptor, messageOf } from "../question.ts";
import { timeOfCall } from "./time-of-call.ts";

/** Text with `{field}` in it, split into fixed text and fields. */
export type Template = readonly (string | FieldReference)[];

interface FieldReference {
  readonly field: string;
  readonly part: Part | undefined;
}

const PARTS = {
  /** An address without its port. */
  host: (text: string) => text.replace(/^\[(.*)\](?::\d+)?$/, "$1").replace(/^([^:]*):\d+$/, "$1"),
  /** A path without its query. */
  path: (text: string) => text.replace(/[?#].*$/s, ""),
} as const;
type Part = keyof typeof PARTS;

/** How every line of a log is read. */
export interface Mapping {
  readonly domain: Template;
  /** Name of the field that holds the time. */
  readonly time: string;
  /** The descriptors. As in Envoy, a descriptor is left out if one of its fields is missing. */
  readonly descriptors: readonly (readonly { readonly key: string; readonly value: Template }[])[];
  /** Name of the field that holds the hits; 1 without. */
  readonly hits: string | undefined;
}

/** A line of a log, by the names of its fields. */
export type LogLine = Readonly<Record<string, unknown>>;

/** The line holds no call; the message says why. */
export class NoCall extends Error {
  override readonly name = "NoCall";
}

/** The names of all fields that the mapping reads, in its order. */
export function fieldsOf({ domain, time, descriptors, hits }: Mapping): Set<string> {
  const templates = [domain, ...descriptors.flatMap((entries) => entries.map(({ value }) => value))];
  const references = templates.flat().filter((piece) => typeof piece !== "string");
  return new Set([time, ...(hits === undefined ? [] : [hits]), ...references.map(({ field }) => field)]);
}

/** Reads `{field}`, `{field|host}` and `{field|path}` inside other text. Returns what is wrong with it instead. */
export function parseTemplate(text: string): Template | { readonly problem: string } {
  const pieces: (string | FieldReference)[] = [];
  for (const piece of text.split(/(\{[^{}]*\})/)) {
    if (piece === "") continue;
    if (!piece.startsWith("{") || !piece.endsWith("}")) {
      if (/[{}]/.test(piece)) return { problem: `an unmatched brace in '${text}'` };
      pieces.push(piece);
      continue;
    }
    const [field = "", part] = piece.slice(1, -1).split("|");
    if (field === "") return { problem: `no field between the braces in '${text}'` };
    if (part !== undefined && !Object.hasOwn(PARTS, part)) {
      return { problem: `'${part}' is not a part of a field; expected one of ${Object.keys(PARTS).join(" and ")}` };
    }
    pieces.push({ field, part: part as Part | undefined });
  }
  return pieces;
}

/** The call of a line. Throws NoCall if its time is missing, or no descriptor is left. */
export function callOf(line: LogLine, mapping: Mapping): RecordedCall {
  const time = fieldOf(line, mapping.time);
  const atUs = timeOfCall(time);
  if (atUs === undefined) {
    const found = isAbsent(time) ? "nothing" : JSON.stringify(time);
    throw new NoCall(`expected a time in '${mapping.time}', found ${found}`);
  }
  const domain = filled(mapping.domain, line);
  if (domain === undefined) throw new NoCall("expected a domain, found nothing in its field");
  const descriptors: CallDescriptor[] = [];
  for (const wanted of mapping.descriptors) {
    const descriptor = descriptorOf(wanted, line);
    if (descriptor !== undefined) descriptors.push(descriptor);
  }
  if (descriptors.length === 0) throw new NoCall("expected the fields of at least one descriptor");
  const hitsAddend = mapping.hits === undefined ? 1 : hitsOf(fieldOf(line, mapping.hits));
  return { atUs, message: messageOf({ domain, descriptors, hitsAddend }) };
}

/**
 * The named field; undefined if it is not there. A name with dots leads into inner objects, unless a field has exactly
 * that name.
 */
export function fieldOf(line: LogLine, name: string): unknown {
  if (Object.hasOwn(line, name)) return line[name];
  let value: unknown = line;
  for (const step of name.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as LogLine)[step];
  }
  return value;
}

function descriptorOf(wanted: Mapping["descriptors"][number], line: LogLine): CallDescriptor | undefined {
  const entries: [string, string][] = [];
  for (const { key, value } of wanted) {
    const text = filled(value, line);
    if (text === undefined) return undefined;
    entries.push([key, text]);
  }
  return { entries };
}

function filled(template: Template, line: LogLine): string | undefined {
  let text = "";
  for (const piece of template) {
    if (typeof piece === "string") {
      text += piece;
      continue;
    }
    const value = fieldOf(line, piece.field);
    if (isAbsent(value)) return undefined;
    const written = typeof value === "string" ? value : JSON.stringify(value);
    text += piece.part === undefined ? written : PARTS[piece.part](written);
  }
  return text;
}

// Envoy writes `-`, or null in JSON, for fields that a request did not have.
function isAbsent(value: unknown): boolean {
  return value === undefined || value === null || value === "" || value === "-";
}

function hitsOf(value: unknown): number {
  const hits = Math.floor(Number(value));
  return hits >= 1 ? Math.min(hits, AMOUNT_MAX) : 1;
}
