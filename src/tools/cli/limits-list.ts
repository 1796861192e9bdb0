// `headgate limits list` and `export`: shows limits at run time, and writes them as `import` reads them.

import { visible } from "../../base/visible.ts";
import { typedText } from "../../engine/domain/entry-text.ts";
import { askAdmin } from "./admin-call.ts";
import type { ServerFlags, ShownLimit } from "./limits-text.ts";
import { jsonText, paint, type Terminal } from "./terminal.ts";

export interface ListFlags extends ServerFlags {
  readonly domain?: string;
}

interface ListAnswer {
  readonly limits: readonly ShownLimit[];
  readonly next?: string;
}

/** The members that import reads. */
const EXPORTED = ["domain", "entries", "amounts", "use", "block", "shadow", "exempt", "global_limit", "until", "note"];

export async function listLimits(flags: ListFlags, terminal: Terminal): Promise<void> {
  const limits = await readAll(flags, terminal);
  if (limits === undefined) return;
  const text = limits.map((limit) => listedText(limit, terminal)).join("");
  terminal.out(flags.json ? jsonText({ limits }) : text || "no limits at run time are in force\n");
}

export async function exportLimits(flags: ListFlags, terminal: Terminal): Promise<void> {
  for (const limit of (await readAll(flags, terminal)) ?? []) {
    const asked: Readonly<Record<string, unknown>> = { ...limit, entries: limit.entries.map(withoutText) };
    terminal.out(`${JSON.stringify(Object.fromEntries(EXPORTED.map((key) => [key, asked[key]])))}\n`);
  }
}

/** A value that isn't UTF-8 is written as its bytes alone. */
function withoutText({ key, value, value_base64: bytes }: ShownLimit["entries"][number]): object {
  return bytes === undefined ? { key, value } : { key, value_base64: bytes };
}

/**
 * All limits in force, by domain and descriptor; undefined, with the reason on standard error, if the server can't be
 * asked.
 */
async function readAll(flags: ListFlags, terminal: Terminal): Promise<readonly ShownLimit[] | undefined> {
  const limits: ShownLimit[] = [];
  const query = new URLSearchParams(flags.domain === undefined ? {} : { domain: flags.domain });
  for (;;) {
    const answer = await askAdmin<ListAnswer>(flags, `/limits?${query}`, "limits", terminal);
    if (answer === undefined) return undefined;
    limits.push(...answer.limits);
    if (answer.next === undefined) break;
    query.set("after", answer.next);
  }
  const nameOf = ({ domain, entries }: ShownLimit) => `${domain} ${typedText(entries)}`;
  return limits.sort((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
}

function listedText(limit: ShownLimit, terminal: Terminal): string {
  const { domain, entries, says, set_at: setAt, who } = limit;
  const head = paint(terminal, "bold", visible(`${domain} ${typedText(entries)}`));
  const trouble = says === undefined ? "" : `\n  ${paint(terminal, "yellow", visible(String(says)))}`;
  return `${head}\n  ${visible(`${wordsOf(limit)}${endOf(limit)}`)}${trouble}\n  set at ${visible(`${setAt} by ${who}`)}\n`;
}

function wordsOf({ amounts, use, block, shadow, exempt, global_limit: global }: ShownLimit): string {
  if (Array.isArray(amounts)) return amounts.map(amountWords).join(", ");
  if (use !== undefined) return `limits of ${use}`;
  if (block === true) return shadow === true ? "blocked on paper" : "blocked";
  if (exempt === true) return global === true ? "exempt, also from the global limit" : "exempt";
  return "unset";
}

function amountWords({ limit, requests_per_unit: requests, unit, burst }: Readonly<Record<string, unknown>>): string {
  const name = limit === undefined ? "" : `${limit}: `;
  const most = burst === undefined ? "" : `, burst ${burst}`;
  const window = limit === undefined ? ", in the rule's window" : "";
  return `${name}${requests}${unit === undefined ? window : ` per ${unit}`}${most}`;
}

function endOf({ until, note }: ShownLimit): string {
  return `${until === undefined ? "" : ` until ${until}`}${note === undefined ? "" : `: ${note}`}`;
}
