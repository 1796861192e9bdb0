// `headgate simulate`: options in, report out. What it does is in src/tools/simulate.

import { parseShare, someText, whole } from "./arguments.ts";
import { addCallOptions, mappingOf } from "./call-options.ts";
import type { ProgramCommand } from "./command.ts";
import type { SimulateFlags } from "./simulate-files.ts";
import type { Terminal } from "./terminal.ts";

/** Adds the command. */
export function addSimulate(program: ProgramCommand, terminal: Terminal): void {
  const command = program
    .command("simulate")
    .summary("see what rules would have done to recorded calls")
    .description(
      "Decides recorded calls by rules as the service would have, at the times at which they came, and tells per limit" +
        " what it refused, whom, and which burst would have refused nobody. Reads recordings of `headgate mirror" +
        " --record`, decision logs, and access logs in JSON or CSV (gzip if a name ends in .gz).",
    )
    .argument("<calls...>", "files of calls, - for standard input; several are put in order by their times")
    .takesRules()
    .option("--against <path>", "compare with these rules", someText("a path"))
    .option(
      "--limits <file>",
      "with these limits at run time, as `limits export` writes them; compares with and without",
      someText("a path"),
    )
    .option("--explain <n>", "show so many refusals with buckets before and after", whole(0, 10_000), 0)
    .option("--tolerate <share>", "exit 1 if more calls are refused (with --against: newly refused)", parseShare);
  addCallOptions(command, terminal)
    .option("--json", "print the report as JSON")
    .examples(`
  headgate simulate --rules rules/ calls.jsonl.gz
  headgate simulate --rules new/ --against old/ --explain 3 calls.jsonl.gz
  kubectl logs deployment/headgate | headgate simulate --rules rules/ -
  headgate simulate --rules rules/ --limits limits.jsonl calls.jsonl.gz
  headgate simulate --domain edge --time start_time \\
    --descriptor 'remote_address={downstream_remote_address|host}' access.log.gz
`)
    .action(async (files: readonly string[], flags: SimulateFlags) => {
      const mapping = mappingOf(command, flags);
      const { simulateFiles } = await import("./simulate-files.ts");
      await simulateFiles(files, flags, mapping, terminal);
    });
}
