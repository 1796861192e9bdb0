// Rule files as a control plane would send them, as far as its messages have fields for what they say.

import { UNIT_NAMES } from "../../src/engine/domain/limit.ts";
import type { MappingNode, SourceFile, SourceNode } from "../../src/engine/rules/source.ts";
import { parseFile } from "../../src/rule-sources/files/parse-file.ts";
import type { WireConfig, WireDescriptor } from "./resources.ts";

/** The resources that say the same as the files; undefined if the files say what no message can. */
export function resourcesOf(files: Readonly<Record<string, string>>): WireConfig[] | undefined {
  try {
    return Object.entries(files).map(([name, content]) => configOf(parseFile({ name, bytes: Buffer.from(content) })));
  } catch (error) {
    if (error instanceof NoField) return undefined;
    throw error;
  }
}

/** Thrown for what no message can say. */
class NoField extends Error {}

function member(node: MappingNode, name: string): SourceNode | undefined {
  const found = node.entries.filter(({ key }) => key.text === name).at(-1)?.value;
  return found?.kind === "scalar" && found.value.type === "null" ? undefined : found;
}

function text(node: MappingNode, name: string): string {
  const found = member(node, name);
  return found?.kind === "scalar" ? found.text : "";
}

function isOn(node: MappingNode, name: string): boolean {
  return text(node, name) === "true";
}

function items(node: SourceNode | undefined): MappingNode[] {
  if (node === undefined) return [];
  if (node.kind !== "sequence") throw new NoField();
  return node.items.filter((item) => item.kind === "mapping");
}

const DESCRIPTOR = ["key", "value", "rate_limit", "descriptors", "shadow_mode", "detailed_metric", "quota_mode"];
const LIMIT = ["unit", "requests_per_unit", "unlimited", "name", "replaces"];

function onlyHas(node: MappingNode, names: readonly string[]): void {
  if (node.entries.some(({ key }) => !names.includes(key.text))) throw new NoField();
}

function descriptorOf(node: MappingNode): WireDescriptor {
  onlyHas(node, DESCRIPTOR);
  const limit = member(node, "rate_limit");
  return {
    key: text(node, "key"),
    value: text(node, "value"),
    ...(limit?.kind === "mapping" ? { rate_limit: limitOf(limit) } : {}),
    descriptors: items(member(node, "descriptors")).map(descriptorOf),
    shadow_mode: isOn(node, "shadow_mode"),
    detailed_metric: isOn(node, "detailed_metric"),
    quota_mode: isOn(node, "quota_mode"),
  };
}

function limitOf(node: MappingNode): NonNullable<WireDescriptor["rate_limit"]> {
  onlyHas(node, LIMIT);
  const unit = text(node, "unit").toLowerCase();
  if (unit !== "" && !UNIT_NAMES.some((name) => name === unit)) throw new NoField();
  const amount = member(node, "requests_per_unit");
  return {
    unit: unit.toUpperCase() || "UNKNOWN",
    requests_per_unit: amount?.kind === "scalar" && "number" in amount.value ? amount.value.number : 0,
    unlimited: isOn(node, "unlimited"),
    name: text(node, "name"),
    replaces: items(member(node, "replaces")).map((item) => ({ name: text(item, "name") })),
  };
}

function configOf({ name, root }: SourceFile): WireConfig {
  if (root?.kind !== "mapping") throw new NoField();
  onlyHas(root, ["domain", "descriptors"]);
  return { name, domain: text(root, "domain"), descriptors: items(member(root, "descriptors")).map(descriptorOf) };
}
