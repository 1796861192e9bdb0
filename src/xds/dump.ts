// Sets of a control plane in files, for people and commands: what RULES_CACHE keeps, and JSON as control planes print it
// (proto3 JSON of RateLimitConfig messages, alone, in a list, or as the `resources` of an answer).

import { parseHere } from "../config/parse-in-thread.ts";
import { packFile, unpackFile } from "../config/tree-wire.ts";
import { isRecord } from "../core/is-record.ts";
import { runThrough } from "../core/long-work.ts";
import { resolvePlain } from "../rules/scalar.ts";
import type { Place, ScalarNode, SourceFile, SourceNode } from "../rules/source.ts";
import { isCacheText, readCacheText } from "./rules-cache.ts";

/** The resources that a file's text holds, in the order of their names; undefined if it is no such file. Throws as readCacheText does. */
export function readDump(text: string): SourceFile[] | undefined {
  const files = isCacheText(text) ? fromCache(text) : fromJson(text);
  return files?.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

function fromCache(text: string): SourceFile[] {
  return readCacheText(text).set.resources.map(({ value }) => parseHere({ name: "", bytes: value, isResource: true }));
}

function fromJson(text: string): SourceFile[] | undefined {
  if (!/^\s*[{[]/.test(text)) return undefined;
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    // Text in another form that begins with a bracket, too: who reads it says what is wrong with it.
    return undefined;
  }
  const configs = configsOf(json);
  return configs?.map((config) => {
    const { name = "", domain = "" } = config;
    const shown = String(name === "" ? domain : name);
    const { name: _name, "@type": _type, ...rest } = config;
    const file = { name: `resource ${shown}`, isResource: true, root: nodeOf(rest), problems: [] };
    return runThrough(unpackFile(packFile(file)));
  });
}

type Members = Readonly<Record<string, unknown>>;

// A rules file in JSON is one mapping with a domain, too: what only a message has tells them apart.
function configsOf(json: unknown): Members[] | undefined {
  const list = Array.isArray(json) ? json : isRecord(json) ? json.resources : undefined;
  if (Array.isArray(list)) return list.every(isRecord) ? list.map(unwrapped) : undefined;
  return isRecord(json) && ("name" in json || "@type" in json) && "domain" in json ? [json] : undefined;
}

// Dumps of xDS put the message under `resource` or `value`, beside its name and version.
function unwrapped(item: Members): Members {
  for (const key of ["resource", "value"]) {
    const inner = item[key];
    if (isRecord(inner) && !("domain" in item)) return unwrapped(inner);
  }
  return item;
}

// Until tree-wire.ts knows where the node stands.
const NOWHERE: Place = { file: "", line: 0, column: 0 };

function nodeOf(value: unknown, isFree = false): SourceNode {
  if (Array.isArray(value)) return { kind: "sequence", at: NOWHERE, items: value.map((item) => nodeOf(item, isFree)) };
  if (isRecord(value)) {
    const entries = Object.entries(value).map(([name, member]) => {
      const key = isFree ? name : snakeCase(name);
      return { key: textNode(key), value: nodeOf(member, isFree || key === "metadata"), isMerged: false };
    });
    return { kind: "mapping", at: NOWHERE, entries };
  }
  if (typeof value === "string") return textNode(value);
  const text = value === null ? "null" : String(value);
  return { kind: "scalar", at: NOWHERE, text, isQuoted: false, value: resolvePlain(text) };
}

function textNode(text: string): ScalarNode {
  return { kind: "scalar", at: NOWHERE, text, isQuoted: true, value: { type: "text" } };
}

/** proto3 JSON prints requestsPerUnit for requests_per_unit, and takes both. */
function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
