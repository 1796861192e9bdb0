// What several commands share: options, examples in the help.

import { Command } from "commander";
import { parseHttpServer, parseHttpServers, serverOption, someText } from "./arguments.ts";

/** A command of this program, as are its subcommands. */
export class ProgramCommand extends Command {
  override createCommand(name?: string): ProgramCommand {
    return new ProgramCommand(name);
  }

  /** Adds examples to the help; `afterAll`: also to the subcommands' help. */
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
export function asking(below: ProgramCommand, name: string, summary: string): ProgramCommand {
  const server = serverOption("-s, --server <url>", "HTTP port of the service", parseHttpServer, "localhost:8080");
  return adminCommand(below, name, summary).addOption(server).option("--json", "print JSON");
}

/** Adds a command that asks the HTTP ports of several processes. */
export function askingAll(below: ProgramCommand, name: string, summary: string, json = "print JSON"): ProgramCommand {
  const servers = serverOption(
    "-s, --server <urls>",
    "HTTP ports of the processes, separated by commas",
    parseHttpServers,
    "localhost:8080",
  );
  return adminCommand(below, name, summary).addOption(servers).option("--json", json);
}

function adminCommand(below: ProgramCommand, name: string, summary: string): ProgramCommand {
  return below.command(name).summary(summary).option("--token-file <path>", "file with the token to send");
}
