// Suggested limits as a rule file, with comments that say what they are made of.

import { getOrInsert } from "../../../base/get-or-insert.ts";
import type { HoldNames, Shape } from "./shapes.ts";

/** Plain words that YAML reads as text. */
const PLAIN = /^[A-Za-z_][\w./-]*$/;
/** The default key that marks a settlement. */
const SETTLE_DEFAULT = "settle";
const WORDS = /^(?:y|yes|n|no|on|off|true|false|null)$/i;

interface Node {
  readonly key: string;
  shape: Shape | undefined;
  readonly children: Map<string, Node>;
}

interface RulesTextOptions {
  /** The comment above each limit, line by line. */
  readonly noteOf: (shape: Shape) => readonly string[];
  /** Undefined: nothing is held. In ordinary text. */
  readonly names?: HoldNames | undefined;
  /** True: rules for simulating the recording. Its calls may have no ids; such calls pay what they used. */
  readonly isForRecording?: boolean;
}

/** The file of one domain. */
export function rulesText(domain: string, shapes: readonly Shape[], options: RulesTextOptions): string {
  const root: Node = { key: "", shape: undefined, children: new Map() };
  for (const shape of shapes) {
    let node = root;
    for (const key of shape.keys) {
      node = getOrInsert<string, Node>(node.children, key, () => ({ key, shape: undefined, children: new Map() }));
    }
    node.shape = shape;
  }
  return `domain: ${scalar(domain)}\n${levelText(root, "", options)}`;
}

function levelText({ children }: Node, indent: string, options: RulesTextOptions): string {
  let text = `${indent}descriptors:\n`;
  for (const node of children.values()) {
    for (const note of node.shape === undefined ? [] : options.noteOf(node.shape)) text += `${indent}  # ${note}\n`;
    text += `${indent}  - key: ${scalar(node.key)}\n`;
    if (node.shape !== undefined) {
      text += holdText(node.shape, `${indent}    `, options);
      const { perMinute, burst } = node.shape;
      text += `${indent}    rate_limit: { requests_per_unit: ${perMinute}, unit: minute, algorithm: token_bucket, burst: ${burst} }\n`;
    }
    if (node.children.size > 0) text += levelText(node, `${indent}    `, options);
  }
  return text;
}

function holdText({ use }: Shape, indent: string, { names, isForRecording }: RulesTextOptions): string {
  if (use?.hold === undefined || names === undefined) return "";
  // The cost is always 1: the entry is named here only so that matching skips it.
  if (isForRecording === true && !use.isPaired) return `${indent}cost: { entry: ${scalar(names.estimate)}, max: 1 }\n`;
  const { default: byDefault, max, seconds } = use.hold;
  const settle = names.settle === SETTLE_DEFAULT ? "" : `, settle: ${scalar(names.settle)}`;
  const numbers = `default: ${byDefault}, max: ${max}, ttl: ${seconds}s${settle}`;
  return `${indent}hold: { id: ${scalar(names.id)}, estimate: ${scalar(names.estimate)}, ${numbers} }\n`;
}

function scalar(text: string): string {
  return PLAIN.test(text) && !WORDS.test(text) ? text : JSON.stringify(text);
}
