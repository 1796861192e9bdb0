// `headgate suggest`: options in, rules out. What it does is in src/tools/simulate/suggest.

import { readTyped } from "../../engine/domain/entry-text.ts";
import { decimal, expected } from "./arguments.ts";
import { addCallOptions, mappingOf } from "./call-options.ts";
import type { ProgramCommand } from "./command.ts";
import type { SuggestFlags } from "./suggest-rules.ts";
import type { Terminal } from "./terminal.ts";

/** Adds the command. */
export function addSuggest(program: ProgramCommand, terminal: Terminal): void {
  const command = program
    .command("suggest")
    .summary("make rules from recorded calls")
    .description(
      "Prints a rule file with a limit per kind of descriptor under which the chosen share of callers would never have" +
        " been refused, and in comments what those limits would have done.",
    )
    .argument("<calls...>", "files of calls, as simulate reads them")
    .option("--percentile <n>", "share of callers in percent that no limit refuses", decimal(0.0001, 100), 99)
    .option("--headroom <factor>", "what rates and bursts are multiplied by", decimal(1, 9999), 1.2)
    .option(
      "--hold <entries>",
      "entries that speak of holds: id=request_id,estimate=max_tokens and, unless it is that, settle=settle",
      parseHold,
    )
    .option("--out <directory>", "write a file per domain there, in place of printing");
  addCallOptions(command, terminal)
    .examples(`
  headgate suggest calls.jsonl.gz > rules/edge.yaml
  headgate suggest --percentile 99.9 --headroom 2 calls.jsonl.gz --out rules
  headgate suggest --hold id=request_id,estimate=max_tokens calls.jsonl.gz
`)
    .action(async (files: readonly string[], flags: SuggestFlags) => {
      const mapping = mappingOf(command, flags);
      const { suggestRules } = await import("./suggest-rules.ts");
      await suggestRules(files, flags, mapping, terminal);
    });
}

/** Reads keys of entries about holds. */
function parseHold(text: string): NonNullable<SuggestFlags["hold"]> {
  const entries = readTyped(text);
  const said = new Map(typeof entries === "string" ? [] : entries.map(({ key, value }) => [key, value]));
  const { id = "", estimate = "", settle = "settle" } = Object.fromEntries(said);
  const known = [...said.keys()].every((key) => key === "id" || key === "estimate" || key === "settle");
  const names = { id, estimate, settle };
  if (known && Object.values(names).every((name) => name !== "") && new Set(Object.values(names)).size === 3)
    return names;
  throw expected("expected id=KEY,estimate=KEY or id=KEY,estimate=KEY,settle=KEY, with different keys");
}
