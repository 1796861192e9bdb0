// `config_check` and `client`: envoyproxy/ratelimit's commands with their flags, run by `check` and `ask`.
// docs/migrating.md says where they differ.

import { type Command, InvalidArgumentError } from "commander";
import { parseAuthority, textParser } from "./arguments.ts";
import { FlagError, parseGoFlags } from "./go-flags.ts";
import type { Terminal } from "./terminal.ts";

const TIMEOUT_MS = 10_000;
const DIAL_DEFAULT = "localhost:8081";
/** Exit code of Go programs for wrong flags. */
const EXIT_FLAGS = 2;

/** Adds both commands. */
export function addReferenceCommands(program: Command, terminal: Terminal): void {
  addConfigCheck(program, terminal);
  addClient(program, terminal);
}

function addConfigCheck(program: Command, terminal: Terminal): void {
  program
    .command("config_check")
    .summary("`check` under the flags of envoyproxy/ratelimit")
    .description(
      "Checks rule files. Flags: -config_dir DIR [-merge_domain_configs]. Ends with 0 if they can be used, with 1 if" +
        " not, with 2 if the flags are wrong.",
    )
    .argument("[flags...]")
    .allowUnknownOption()
    .addHelpText("after", "\nExamples:\n  headgate config_check -config_dir /data/ratelimit/config\n")
    .action((args: readonly string[]) =>
      withFlags(terminal, async () => {
        const { values, rest } = parseGoFlags(args, { config_dir: "text", merge_domain_configs: "boolean" });
        const path = values.get("config_dir") ?? "";
        if (path === "") throw new FlagError("flag -config_dir is needed: the directory of the rule files");
        refuseRest(rest);
        const mergesDomains = values.get("merge_domain_configs") === "true" ? true : undefined;
        const { checkRules } = await import("./check-rules.ts");
        await checkRules(
          { path, mergesDomains, everyFile: true, isStrict: false, asJson: false, asAnnotations: false },
          terminal,
        );
      }),
    );
}

function addClient(program: Command, terminal: Terminal): void {
  program
    .command("client")
    .summary("`ask` under the flags of envoyproxy/ratelimit")
    .description(
      "Sends one request. Flags: [-dial_string HOST:PORT] -domain DOMAIN -descriptors k=v,k2=v2 (repeatable). Ends with" +
        " 0 on every answer, OVER_LIMIT too, with 1 if there is no answer, with 2 if the flags are wrong.",
    )
    .argument("[flags...]")
    .allowUnknownOption()
    .addHelpText("after", "\nExamples:\n  headgate client -dial_string host:8081 -domain edge -descriptors user=a\n")
    .action((args: readonly string[]) =>
      withFlags(terminal, async () => {
        const { values, lists, rest } = parseGoFlags(args, {
          dial_string: "text",
          domain: "text",
          descriptors: "list",
        });
        const domain = values.get("domain") ?? "";
        const descriptors = (lists.get("descriptors") ?? []).map((text) =>
          asFlag("descriptors", () => textParser(terminal)(text)),
        );
        const server = asFlag("dial_string", () => parseAuthority(values.get("dial_string") ?? DIAL_DEFAULT));
        if (domain === "") throw new FlagError("flag -domain is needed");
        if (descriptors.length === 0) throw new FlagError("flag -descriptors is needed, as key=value,key2=value2");
        refuseRest(rest);
        const { ask } = await import("./ask.ts");
        const code = await ask(
          {
            domain,
            descriptors,
            server,
            hits: 1,
            isRefund: false,
            times: 1,
            timeoutMs: TIMEOUT_MS,
            asJson: false,
          },
          terminal,
        );
        terminal.setExitCode(code === 2 ? 1 : 0);
      }),
    );
}

function asFlag<T>(name: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof InvalidArgumentError) throw new FlagError(`flag -${name}: ${error.message}`);
    throw error;
  }
}

function refuseRest(rest: readonly string[]): void {
  const [first] = rest;
  if (first !== undefined) throw new FlagError(`expected flags only, got '${first}'`);
}

async function withFlags(terminal: Terminal, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (!(error instanceof FlagError)) throw error;
    terminal.err(`${error.message} (--help says more)\n`);
    terminal.setExitCode(EXIT_FLAGS);
  }
}
