// `config_check` and `client`: envoyproxy/ratelimit's commands with their flags, run by `check` and `ask`.
// docs/migrating.md says where they differ.

import { BOOLEAN } from "../../settings/value-types.ts";
import { parseAuthority, readAs, someText, type TypedDescriptor, textParser } from "./arguments.ts";
import type { ProgramCommand } from "./command.ts";
import type { Terminal } from "./terminal.ts";

const TIMEOUT_MS = 10_000;
const DIAL_DEFAULT = "localhost:8081";
const NAMES = ["config_check", "client"];
/** A flag with one dash, as Go programs take them, too. */
const ONE_DASH = /^-(?=(?:config_dir|merge_domain_configs|dial_string|domain|descriptors)(?:=|$))/;

/** The arguments of the process with two dashes before the flags of these commands. */
export function withTwoDashes(argv: readonly string[]): readonly string[] {
  return NAMES.includes(argv[2] ?? "") ? argv.map((arg) => arg.replace(ONE_DASH, "--")) : argv;
}

interface ConfigCheckFlags {
  readonly config_dir: string;
  readonly merge_domain_configs?: boolean;
}

interface ClientFlags {
  readonly dial_string: string;
  readonly domain: string;
  readonly descriptors: readonly TypedDescriptor[];
}

/** Adds both commands. */
export function addReferenceCommands(program: ProgramCommand, terminal: Terminal): void {
  program
    .command("config_check")
    .summary("`check` with the flags of envoyproxy/ratelimit")
    .description(
      "Checks rule files. Exits 0 if they can be used, 1 if not, 2 if the flags are wrong. Flags may have one" +
        " dash.",
    )
    .requiredOption("--config_dir <directory>", "directory of the rule files", someText("a directory"))
    .option("--merge_domain_configs [bool]", "join files of the same domain", readAs(BOOLEAN))
    .examples("\n  headgate config_check -config_dir /data/ratelimit/config\n")
    .action(async (flags: ConfigCheckFlags) => {
      const { checkRules } = await import("./check-rules.ts");
      const mergeDomains = flags.merge_domain_configs === true ? true : undefined;
      await checkRules({ path: flags.config_dir, mergeDomains, everyFile: true }, { format: "text" }, terminal);
    });
  program
    .command("client")
    .summary("`ask` with the flags of envoyproxy/ratelimit")
    .description(
      "Sends one request. Exits 0 on any answer, even OVER_LIMIT, 1 if there is no answer, 2 if the flags are wrong." +
        " Flags may have one dash.",
    )
    .option("--dial_string <host:port>", "gRPC address of the service", parseAuthority, DIAL_DEFAULT)
    .requiredOption("--domain <name>", "domain of the call", someText("a domain"))
    .requiredOption("--descriptors <entries>", "a descriptor as k=v,k2=v2; repeatable", textParser(terminal))
    .examples("\n  headgate client -dial_string host:8081 -domain edge -descriptors user=a\n")
    .action(async ({ dial_string: server, domain, descriptors }: ClientFlags) => {
      const { ask } = await import("./ask.ts");
      const code = await ask(descriptors, { domain, server, hits: 1, times: 1, timeout: TIMEOUT_MS }, terminal);
      terminal.setExitCode(code === 2 ? 1 : 0);
    });
}
