// Parses the bytes of one rule file into a tree: detects the encoding, then calls parse-yaml.ts for text or
// resource-tree.ts for a resource of a control plane.

import { isUtf8 } from "../../base/host.ts";
import { makeProblem } from "../../engine/rules/problems.ts";
import { NODES_MAX } from "../../engine/rules/schema.ts";
import type { SourceFile } from "../../engine/rules/source.ts";
import { parseYaml, placeInText } from "./parse-yaml.ts";
import type { ReadFile } from "./read-files.ts";
import { readResource } from "./resource-tree.ts";

/**
 * Parses one file; its mistakes are in the result's `problems`. The nodes of a resource have no paths yet
 * (tree-wire.ts).
 */
export function parseFile({ name, bytes, isResource }: ReadFile, nodesMax = NODES_MAX): SourceFile {
  if (isResource === true) return readResource(bytes, nodesMax);
  const [first, second] = bytes;
  const utf16 = first === 0xff && second === 0xfe ? "utf-16le" : first === 0xfe && second === 0xff ? "utf-16be" : "";
  if (utf16 !== "") return parseYaml(name, new TextDecoder(utf16).decode(bytes), nodesMax);
  if (!isUtf8(bytes)) {
    // The decoder writes U+FFFD for the first bad byte. If the text contains U+FFFD itself, the place may be too early.
    const text = bytes.toString("utf8");
    const at = placeInText(name, text, text.indexOf("\ufffd"));
    const problem = makeProblem("error", at, "the file is not UTF-8 text", "Save it as UTF-8.");
    return { name, root: undefined, problems: [problem] };
  }
  const text = bytes.toString("utf8");
  return parseYaml(name, text.startsWith("\ufeff") ? text.slice(1) : text, nodesMax);
}
