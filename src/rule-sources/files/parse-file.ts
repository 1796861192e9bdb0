// Parses the bytes of one rule file into a tree: detects the encoding, then calls parse-yaml.ts for text or resource-tree.ts for a
// resource of a control plane.

import { isUtf8 } from "node:buffer";
import { makeProblem } from "../../engine/rules/problems.ts";
import { NODES_MAX } from "../../engine/rules/schema.ts";
import type { SourceFile } from "../../engine/rules/source.ts";
import { parseYaml } from "./parse-yaml.ts";
import type { ReadFile } from "./read-files.ts";
import { readResource } from "./resource-tree.ts";

/** Parses one file; its mistakes are in the result's `problems`. The nodes of a resource have no paths yet (tree-wire.ts). */
export function parseFile({ name, bytes, isResource }: ReadFile, nodesMax = NODES_MAX): SourceFile {
  if (isResource === true) return readResource(bytes, nodesMax);
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return parseYaml(name, decodeUtf16(bytes, "utf-16le"), nodesMax);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return parseYaml(name, decodeUtf16(bytes, "utf-16be"), nodesMax);
  if (!isUtf8(bytes)) {
    const problem = makeProblem(
      "error",
      placeOfBadByte(name, bytes),
      "the file is not UTF-8 text",
      "Save it as UTF-8.",
    );
    return { name, root: undefined, problems: [problem] };
  }
  const text = bytes.toString("utf8");
  return parseYaml(name, text.startsWith("\ufeff") ? text.slice(1) : text, nodesMax);
}

function decodeUtf16(bytes: Buffer, encoding: string): string {
  return new TextDecoder(encoding).decode(bytes);
}

function placeOfBadByte(file: string, bytes: Buffer): { file: string; line: number; column: number } {
  let line = 1;
  let start = 0;
  for (;;) {
    const end = bytes.indexOf(0x0a, start);
    const part = bytes.subarray(start, end < 0 ? bytes.length : end);
    if (end < 0 || !isUtf8(part)) {
      // The decoder writes U+FFFD for the first bad byte. If the text contains U+FFFD itself, the column is only near.
      return { file, line, column: Math.max(0, part.toString("utf8").indexOf("\ufffd")) + 1 };
    }
    start = end + 1;
    line++;
  }
}
