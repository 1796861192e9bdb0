// A command of this program: what several of them take and show alike.

import { Command } from "commander";
import { parseHttpServer, serverOption, someText } from "./arguments.ts";

/** A command whose subcommands are such, too. */
export class ProgramCommand extends Command {
  override createCommand(name?: string): ProgramCommand {
    return new ProgramCommand(name);
  }

  /** Adds examples to its help; `afterAll`: and to that of its subcommands. */
  examples(lines: string, where: "after" | "afterAll" = "after"): this {
    return this.addHelpText(where, `\nExamples:${lines}`);
  }

  /** Adds the options for rule files. */
  takesRules(what = "directory or file with the rules"): this {
    return this.option(
      "-r, --rules <path>",
      `${what} (default: what the service would read)`,
      someText("a path"),
    ).option("--merge-domains", "join files of the same domain, as MERGE_DOMAIN_CONFIG=true does");
  }
}

/** Adds a command that asks a running service's HTTP port. */
export function asking(below: ProgramCommand, name: string, summary: string, json = "print JSON"): ProgramCommand {
  return below
    .command(name)
    .summary(summary)
    .addOption(serverOption("-s, --server <url>", "HTTP port of the service", parseHttpServer, "localhost:8080"))
    .option("--token-file <path>", "file with the token to send")
    .option("--json", json);
}
