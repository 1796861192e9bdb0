// Reads sets of a control plane from files, for commands: the file of RULES_CACHE, or JSON as control planes print it (proto3 JSON of
// RateLimitConfig messages: one, a list, or the `resources` of an answer).

import { isRecord } from "../../engine/base/is-record.ts";
import { runThrough } from "../../engine/base/long-work.ts";
import { resolvePlain } from "../../engine/rules/scalar.ts";
import type { SourceFile, SourceNode } from "../../engine/rules/source.ts";
import { parseHere } from "../files/parse-in-thread.ts";
import { mapping, scalar, sequence, textNode } from "../files/resource-tree.ts";
import { packFile, unpackFile } from "../files/tree-wire.ts";
import { isCacheText, readCacheText } from "./rules-cache.ts";

/** The resources in a file's text, sorted by name; undefined if it is no such file. Throws as readCacheText does. */
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
    // YAML may begin with a bracket too; its parser then reports the mistakes.
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

// A rules file in JSON also is a mapping with a domain; only a message has `name` or `@type`.
function configsOf(json: unknown): Members[] | undefined {
  const list = Array.isArray(json) ? json : isRecord(json) ? json.resources : undefined;
  if (Array.isArray(list)) return list.every(isRecord) ? list.map(unwrapped) : undefined;
  return isRecord(json) && ("name" in json || "@type" in json) && "domain" in json ? [json] : undefined;
}

// xDS dumps have the message under `resource` or `value`, beside its name and version.
function unwrapped(item: Members): Members {
  for (const key of ["resource", "value"]) {
    const inner = item[key];
    if (isRecord(inner) && !("domain" in item)) return unwrapped(inner);
  }
  return item;
}

function nodeOf(value: unknown, isFree = false): SourceNode {
  if (Array.isArray(value)) return sequence(value.map((item) => nodeOf(item, isFree)));
  if (isRecord(value)) {
    const entries = Object.entries(value).map(([name, member]): [string, SourceNode] => {
      const key = isFree ? name : snakeCase(name);
      return [key, nodeOf(member, isFree || key === "metadata")];
    });
    return mapping(entries);
  }
  if (typeof value === "string") return textNode(value);
  const text = value === null ? "null" : String(value);
  return scalar(text, false, resolvePlain(text));
}

/** proto3 JSON writes requestsPerUnit for requests_per_unit, and accepts both. */
function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
