// The command line: names, options and help of every command. A command's work is in another file, loaded when the
// command runs: loading takes longer than everything else.

import { CommanderError, Option } from "commander";
import { visibleLines } from "../../base/visible.ts";
import {
  DESCRIPTORS,
  descriptorParser,
  dropServer,
  parseAuthority,
  parseHttpServer,
  serverOption,
  someText,
  type TypedDescriptor,
  textParser,
  whole,
} from "./arguments.ts";
import type { AskFlags } from "./ask.ts";
import { addBuckets } from "./buckets.ts";
import type { CheckFlags } from "./check-rules.ts";
import { ProgramCommand } from "./command.ts";
import { addCompletion } from "./completion.ts";
import { addDoctor } from "./doctor.ts";
import type { ExplainFlags } from "./explain-rules.ts";
import { addLimits } from "./limits.ts";
import { addMirror } from "./mirror.ts";
import { addReferenceCommands, withTwoDashes } from "./reference-commands.ts";
import { addSimulate } from "./simulate.ts";
import { addSuggest } from "./suggest.ts";
import { paint, processTerminal, type Terminal } from "./terminal.ts";
import { addTest } from "./test.ts";
import { addTop } from "./top.ts";
import { addVerify } from "./verify.ts";

interface Finding {
  readonly level: "ok" | "warning" | "error";
  readonly says: string;
}

interface ProgramOptions {
  /** Runs the service until it is told to stop. */
  readonly serve: () => Promise<void>;
  /** What is right and wrong with the settings, rules, certificates and store. */
  readonly checkStart: () => Promise<readonly Finding[]>;
  readonly version: string;
  /** The process's own unless given. */
  readonly terminal?: Terminal;
  /** Resolves when a command that keeps running should end; default: at SIGTERM or SIGINT. */
  readonly untilStopped?: (() => Promise<void>) | undefined;
}

/** Exit code for a wrong command line. 1 is for what a command finds: refused, over limit. */
const EXIT_USAGE = 2;

/** Runs a command line. Wrong arguments are reported on standard error and set the exit code 2. */
export async function runCommandLine(options: ProgramOptions, argv: readonly string[]): Promise<void> {
  const { terminal = processTerminal() } = options;
  // Empty means unset, as with settings; commander would read it.
  if (process.env.HEADGATE_SERVER?.trim() === "") delete process.env.HEADGATE_SERVER;
  // The first two are Node.js and this program.
  if (argv.length <= 2) {
    terminal.out(NEXT_STEPS);
    return;
  }
  try {
    await buildProgram({ ...options, terminal }).parseAsync(withTwoDashes(argv));
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // Help and version end a run like this, too.
    terminal.setExitCode(error.exitCode === 0 ? 0 : EXIT_USAGE);
  }
}

const NEXT_STEPS = `Headgate decides whether calls stay within their rate limits.

  headgate serve                  1. starts it; then open http://localhost:8080
  headgate ask --domain edge login=alice -n 6
                                  2. in another terminal; one call is refused
  headgate check my-rules && RULES_DIR=my-rules headgate serve
                                  3. rules of your own

headgate --help lists all commands.
`;

/** Builds the `headgate` program, ready for `parseAsync`, which throws a CommanderError where a run ends early. */
export function buildProgram(options: ProgramOptions): ProgramCommand {
  const terminal = options.terminal ?? processTerminal();
  const program = new ProgramCommand("headgate")
    .description("Rate limit decision service for Envoy, Istio and any gRPC caller.")
    .version(options.version, "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand("help [command]", "print the help of a command")
    .configureHelp({ helpWidth: terminal.columns })
    .configureOutput({ writeOut: (text) => terminal.out(text), writeErr: (text) => terminal.err(text) })
    .showHelpAfterError("(see --help)")
    .exitOverride()
    // Options after a command's name belong to that command, so a command and its subcommands may have options of one
    // name.
    .enablePositionalOptions()
    .examples(PROGRAM_EXAMPLES);
  addServe(program, terminal, options);
  addCheck(program, terminal);
  addExplain(program, terminal);
  addAsk(program, terminal);
  addBuckets(program, terminal);
  addLimits(program, terminal);
  addTop(program, terminal, options.untilStopped);
  addDoctor(program, terminal);
  addMirror(program, terminal, options.untilStopped);
  addSimulate(program, terminal);
  addSuggest(program, terminal);
  addTest(program, terminal, options.untilStopped);
  addVerify(program, terminal);
  addReferenceCommands(program, terminal);
  addCompletion(program, terminal);
  return program;
}

const PROGRAM_EXAMPLES = `
  headgate serve                               run the service
  headgate check deploy/rules                  find every mistake in rule files
  headgate explain --domain edge plan=free     see which rule applies, and why
  headgate ask --domain edge plan=free         ask a running service
`;

function addServe(program: ProgramCommand, terminal: Terminal, { serve, checkStart }: ProgramOptions): void {
  program
    .command("serve")
    .summary("run the service")
    .description(
      "Runs the service: gRPC on port 8081, HTTP on port 8080. Settings come from environment variables;" +
        " docs/settings.md lists them all.",
    )
    .option("--check", "instead of serving, check settings, rules, certificates and store; exit 1 if anything is wrong")
    .addHelpText(
      "after",
      `
Most used settings:
  RULES_DIR      directory of the rule files
  REDIS_URL      keep buckets in this Redis, shared by all processes
  POSTGRES_URL   keep buckets in this PostgreSQL instead
  GRPC_PORT      gRPC port (8081)
  PORT           HTTP port: /json, health, metrics (8080)
  LOG_LEVEL      fatal, error, warn, info, debug or trace (info)
  LOG_FORMAT     json or text (text on a terminal, otherwise json)

Signals:
  SIGTERM        drain calls under way, then exit
  SIGHUP         reload the rule files

Examples:
  headgate serve
  RULES_DIR=/etc/headgate LOG_FORMAT=json headgate serve
  REDIS_URL=redis://localhost:6379 headgate serve
  RULES_DIR=/etc/headgate headgate serve --check   # in CI
`,
    )
    .action(async ({ check }: { readonly check?: true }) => {
      if (check !== true) return serve();
      const found = await checkStart();
      for (const { level, says } of found)
        terminal.out(
          `${paint(terminal, COLOURS[level], level.padEnd(7))}  ${visibleLines(says).replace(/\n/g, `\n${" ".repeat(9)}`)}\n`,
        );
      terminal.setExitCode(found.some(({ level }) => level === "error") ? 1 : 0);
    });
}

const COLOURS = { ok: "green", warning: "yellow", error: "red" } as const;

function addCheck(program: ProgramCommand, terminal: Terminal): void {
  program
    .command("check")
    .summary("find every mistake in rule files")
    .description(
      "Checks rule files without starting the service. Prints every problem with file:line:column. Exits 1 if the" +
        " service would reject the files, else 0.",
    )
    .argument(
      "[path]",
      "directory or file, - for standard input (default: what the service would read)",
      someText("a path"),
    )
    .option("--merge-domains", "join files of the same domain, as MERGE_DOMAIN_CONFIG=true does")
    .option("--strict", "exit 1 on warnings, too")
    .addOption(new Option("-f, --format <format>", "output format").choices(["text", "json", "github"]).default("text"))
    .option("--json", "same as --format json")
    .examples(`
  headgate check
  headgate check /etc/headgate
  headgate check --strict --json rules/edge.yaml
  headgate check --format github rules/        # annotates pull requests
`)
    .action(async (path: string | undefined, flags: CheckFlags) => {
      const { checkRules } = await import("./check-rules.ts");
      await checkRules({ path, mergeDomains: flags.mergeDomains }, flags, terminal);
    });
}

function addExplain(program: ProgramCommand, terminal: Terminal): void {
  program
    .command("explain")
    .summary("see which rule applies to a descriptor, and why")
    .description(
      "Shows for each descriptor which rules are tried at each entry, which one matches and why the others don't, which" +
        " limits apply and which buckets count them.",
    )
    .argument("<descriptors...>", DESCRIPTORS, descriptorParser(terminal))
    .requiredOption("-d, --domain <name>", "domain of the call", someText("a domain"))
    .takesRules()
    .addOption(
      serverOption("-s, --server <url>", "ask a running server's HTTP port, such as localhost:8080", parseHttpServer),
    )
    .option("--token-file <path>", "file with the server's token (default: ADMIN_TOKEN or ADMIN_TOKEN_FILE)")
    .option("--require-match", "exit 1 if no rule applies")
    .option("--json", "print JSON")
    .examples(`
  headgate explain --domain edge plan=free,api_key=abc
  headgate explain --domain edge --rules rules/ 'path=/search?q=a\\,b'
  headgate explain --domain edge --server localhost:8080 tenant=acme
`)
    .action(async (descriptors: readonly TypedDescriptor[], flags: ExplainFlags, command: ProgramCommand) => {
      dropServer(flags, command, flags.rules !== undefined || flags.mergeDomains === true);
      const { explainRules } = await import("./explain-rules.ts");
      await explainRules(descriptors, flags, terminal);
    });
}

const HITS_MAX = 4_294_967_295;

function addAsk(program: ProgramCommand, terminal: Terminal): void {
  program
    .command("ask")
    .summary("send a request to a running service")
    .description(
      "Sends a ShouldRateLimit request and prints the answer. Exits 0 if every call passed, 1 if any was over limit, 2" +
        " on an error.",
    )
    .argument("<descriptors...>", DESCRIPTORS, textParser(terminal))
    .requiredOption("-d, --domain <name>", "domain of the call", someText("a domain"))
    .addOption(
      serverOption("-s, --server <host:port>", "gRPC address of the service", parseAuthority, "localhost:8081"),
    )
    .option("--hits <n>", "hits to count for the call (default: 1)", whole(1, HITS_MAX))
    .addOption(
      new Option("--peek", "count nothing, only ask whether one more hit would pass").conflicts(["hits", "refund"]),
    )
    .option("--refund", "give the hits back")
    .option("-n, --times <n>", "send the request this many times, one after another", whole(1, 1_000_000), 1)
    .option("--timeout <ms>", "milliseconds to wait for each answer", whole(1, 3_600_000), 1_000)
    .option("--json", "print one JSON object per answer")
    .examples(`
  headgate ask --domain edge plan=free,api_key=abc
  headgate ask --domain edge tenant=acme path=/search -n 20
  headgate ask --domain edge --server ratelimit:8081 --hits 5 tenant=acme
`)
    .action(async (descriptors: readonly TypedDescriptor[], flags: AskFlags) => {
      const { ask } = await import("./ask.ts");
      terminal.setExitCode(await ask(descriptors, flags, terminal));
    });
}
