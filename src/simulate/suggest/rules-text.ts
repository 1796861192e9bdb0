// Suggested limits as a rule file, with what they are made of beside them as comments.

import type { Shape } from "./shapes.ts";

/** Plain words that YAML reads as text. */
const PLAIN = /^[A-Za-z_][\w./-]*$/;
const WORDS = /^(?:y|yes|n|no|on|off|true|false|null)$/i;

interface Node {
  readonly key: string;
  shape: Shape | undefined;
  readonly children: Map<string, Node>;
}

/** What stands in a comment above each limit. */
type NoteOf = (shape: Shape) => string;

/** The file of one domain. */
export function rulesText(domain: string, shapes: readonly Shape[], noteOf: NoteOf): string {
  const root: Node = { key: "", shape: undefined, children: new Map() };
  for (const shape of shapes) {
    let node = root;
    for (const key of shape.keys) {
      let child = node.children.get(key);
      if (child === undefined) {
        child = { key, shape: undefined, children: new Map() };
        node.children.set(key, child);
      }
      node = child;
    }
    node.shape = shape;
  }
  return `domain: ${scalar(domain)}\n${levelText(root, "", noteOf)}`;
}

function levelText({ children }: Node, indent: string, noteOf: NoteOf): string {
  let text = `${indent}descriptors:\n`;
  for (const node of children.values()) {
    if (node.shape !== undefined) text += `${indent}  # ${noteOf(node.shape)}\n`;
    text += `${indent}  - key: ${scalar(node.key)}\n`;
    if (node.shape !== undefined) text += `${indent}    rate_limit: ${limitText(node.shape)}\n`;
    if (node.children.size > 0) text += levelText(node, `${indent}    `, noteOf);
  }
  return text;
}

/** A token bucket: by the second from 60 a minute on, by the minute below. */
function limitText({ perMinute, burst }: Shape): string {
  if (perMinute < 60) {
    return `{ requests_per_unit: ${perMinute}, unit: minute, algorithm: token_bucket, burst: ${burst} }`;
  }
  return `{ tokens_per_second: ${perSecond(perMinute)}, burst: ${burst} }`;
}

/** The rate by the second, rounded up to a tenth below 100 and to a whole number above. */
export function perSecond(perMinute: number): number {
  const rate = perMinute / 60;
  return rate < 100 ? Math.ceil(rate * 10) / 10 : Math.ceil(rate);
}

function scalar(text: string): string {
  return PLAIN.test(text) && !WORDS.test(text) ? text : JSON.stringify(text);
}
