// Reads sets of a control plane from files, for commands: the file of RULES_CACHE, or JSON as control planes print it
// (proto3 JSON of RateLimitConfig messages: one, a list, or the `resources` of an answer).

import { isRecord } from "../../base/is-record.ts";
import { runThrough } from "../../base/long-work.ts";
import type { SourceFile } from "../../engine/rules/source.ts";
import { parseHere } from "../files/parse-in-thread.ts";
import { resourceFile } from "../files/resource-tree.ts";
import { PackedSet, packFile } from "../files/tree-wire.ts";
import { isCacheText, readCacheText } from "./rules-cache.ts";

/** The resources in a file's text, sorted by name; undefined if it is no such file. Throws as readCacheText does. */
export function readDump(text: string): SourceFile[] | undefined {
  const files = isCacheText(text) ? fromCache(text) : fromJson(text);
  return files?.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

function fromCache(text: string): SourceFile[] {
  return parseHere(
    readCacheText(text).set.resources.map(({ value }) => ({ name: "", bytes: value, isResource: true })),
  );
}

function fromJson(text: string): SourceFile[] | undefined {
  if (!/^\s*[{[]/.test(text)) return undefined;
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    // YAML may begin with a bracket too; its parser then reports the mistakes.
    return undefined;
  }
  const configs = configsOf(json);
  if (configs === undefined) return undefined;
  const set = new PackedSet();
  for (const { name = "", "@type": _type, ...rest } of configs) {
    const shown = String(name === "" ? (rest.domain ?? "") : name);
    set.add(packFile(resourceFile(shown, snakeMembers(rest))));
  }
  return runThrough(set.unpack());
}

type Members = Readonly<Record<string, unknown>>;

// A rules file in JSON also is a mapping with a domain; only a message has `name` or `@type`.
function configsOf(json: unknown): Members[] | undefined {
  const list = Array.isArray(json) ? json : isRecord(json) ? json.resources : undefined;
  if (Array.isArray(list)) return list.every(isRecord) ? list.map(unwrapped) : undefined;
  return isRecord(json) && ("name" in json || "@type" in json) && "domain" in json ? [json] : undefined;
}

// xDS dumps have the message under `resource` or `value`, next to its name and version.
function unwrapped(item: Members): Members {
  for (const key of ["resource", "value"]) {
    const inner = item[key];
    if (isRecord(inner) && !("domain" in item)) return unwrapped(inner);
  }
  return item;
}

/** The members by their names in proto/. Keys of metadata are free. */
function snakeMembers(members: Members): Members {
  const named = Object.entries(members).map(([name, value]): [string, unknown] => {
    const key = snakeCase(name);
    if (key === "metadata") return [key, value];
    if (Array.isArray(value)) return [key, value.map((item) => (isRecord(item) ? snakeMembers(item) : item))];
    return [key, isRecord(value) ? snakeMembers(value) : value];
  });
  return Object.fromEntries(named);
}

/** proto3 JSON writes requestsPerUnit for requests_per_unit, and accepts both. */
function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
