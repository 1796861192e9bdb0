// Limits at run time of a case: read as PUT /limits reads them, with the caller as `descriptor`.

import { RequestError } from "../../../base/errors.ts";
import type { ProblemLog } from "../../../engine/rules/problems.ts";
import type { MappingNode, Place, SourceNode } from "../../../engine/rules/source.ts";
import type { AskedLimit } from "../../../engine/runtime/runtime-limit.ts";
import { readAskedLimit } from "../../../operate/http/read-asked-limit.ts";
import { type CaseFields, readDescriptorText } from "./read-fields.ts";

/** A limit at run time that a case sets or unsets. */
interface CaseLimit {
  readonly at: Place;
  readonly asked: AskedLimit;
}

/** The field `limits` of a case or a step. `domain` is its calls' domain. */
export function readCaseLimits(fields: CaseFields, domain: string | undefined): readonly CaseLimit[] {
  return fields.mappings("limits").flatMap((node) => readCaseLimit(node, domain, fields.log) ?? []);
}

function readCaseLimit(node: MappingNode, ofCalls: string | undefined, log: ProblemLog): CaseLimit | undefined {
  const { unset, domain = ofCalls, ...more } = plainOf(node) as Readonly<Record<string, unknown>>;
  const { descriptor: _, ...fields } = more;
  const descriptor = node.entries.find(({ key }) => key.text === "descriptor")?.value;
  try {
    if (descriptor === undefined) throw new RequestError("REQUEST_BODY", "expected a descriptor such as tenant=acme");
    const entries = readDescriptorText(descriptor, "limits", log);
    const asked = readAskedLimit({ ...fields, domain, entries: [] }, "limits", unset === true);
    return { at: node.at, asked: { ...asked, caller: { ...asked.caller, entries } } };
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    log.error(node.at, `limits: ${error.message}`);
    return undefined;
  }
}

/** The node as JSON would have it; values that JSON has no type for are text. */
function plainOf(node: SourceNode): unknown {
  if (node.kind === "sequence") return node.items.map(plainOf);
  if (node.kind === "mapping")
    return Object.fromEntries(node.entries.map(({ key, value }) => [key.text, plainOf(value)]));
  const { value, text } = node;
  if (value.type === "null") return undefined;
  if (value.type === "boolean") return value.boolean;
  return value.type === "integer" ? value.number : text;
}
