// `headgate verify`: options in, report out. The work is in packages/verify.

import { randomInt } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import type { Command } from "commander";
import { errorMessage } from "../../base/thrown.ts";
import { visible, visibleLines } from "../../base/visible.ts";
import { dropServer, parseAuthority, serverOption, someText, whole } from "./arguments.ts";
import { paint, sayTrouble, type Terminal } from "./terminal.ts";

interface VerifyFlags {
  readonly server?: string;
  readonly http?: string;
  readonly header?: readonly string[];
  readonly seed?: number;
  readonly junit?: string;
  /** As typed: readPlan checks them. */
  readonly [name: string]: unknown;
}

const NUMBER_MAX = 4_294_967_295;

/** Adds the command. */
export function addVerify(program: Command, terminal: Terminal): void {
  program
    .command("verify")
    .summary("prove that a service keeps a limit")
    .description(
      "Calls a service that speaks Envoy's rate limit protocol, or a page behind Envoy: in bursts, steadily, at the edges of" +
        " windows. Checks each grant, refusal, wait and remainder against the limit that you name. Exits 0 if the limit" +
        " holds, 1 if it does not, 2 if nothing is proven.",
    )
    .argument("[what]", "a descriptor as key=value,key2=value2, or a plan as a .yaml file", someText("text"))
    .addOption(
      serverOption(
        "-s, --server <host:port,...>",
        "gRPC addresses of the service; https://host:port for TLS",
        readServers,
      ),
    )
    .option("--cert <file>", "client certificate for the servers (PEM)", someText("a path"))
    .option("--key <file>", "key of the client certificate (PEM)", someText("a path"))
    .option("-d, --domain <name>", "domain of the calls")
    .option("--http <url>", "call this page behind Envoy instead of --server")
    .option("--header <name=value...>", "headers to send with --http")
    .option("--limit <rate>", "the limit to verify, such as 50/s, 1000/h or 20/30s")
    .option("--burst <n>", "burst of a token bucket", whole(1, NUMBER_MAX))
    .option("--algorithm <name>", "algorithm of the limit, as in rule files (default: any that fits)")
    .option("--tolerance <n>", "accept this many hits more or less", whole(0, NUMBER_MAX))
    .option("--refunds", "also give hits back (is_negative_hits)")
    .option("--for <time>", "how long to send calls (default: 20s)")
    .option("--seed <n>", "repeat the calls of the run with this seed", whole(0, NUMBER_MAX))
    .option("--junit <file>", "also write the report as JUnit XML", someText("a path"))
    .addHelpText("after", EXAMPLES)
    .action((what: string | undefined, flags: VerifyFlags, command: Command) => {
      if (what === undefined && Object.keys(flags).every((name) => command.getOptionValueSource(name) !== "cli"))
        return sayTrouble(terminal, `expected a descriptor or a plan, or --http\n${EXAMPLES}`);
      dropServer(flags, command, flags.http !== undefined || isPlan(what));
      return run(what, flags, terminal);
    });
}

function readServers(text: string): string {
  const read = (one: string) => (/^https?:/.test(one) ? one : parseAuthority(one));
  return text.split(",").map(read).join(",");
}

function isPlan(what: string | undefined): what is string {
  return what !== undefined && /\.ya?ml$/.test(what);
}

const EXAMPLES = `
A * in a value stands for four new callers, whose limits are full.

Examples:
  headgate verify --server headgate:8081 --domain edge 'tenant=verify-*' \\
    --limit 50/s --burst 100
  headgate verify --http https://shop.example/ --header 'x-tenant=verify-*' \\
    --limit 50/s
  headgate verify plan.yaml --junit out.xml
`;

async function run(what: string | undefined, flags: VerifyFlags, terminal: Terminal): Promise<void> {
  const { junitText, readPlan, reportText, verify } = await import("#verify");
  try {
    const isFile = isPlan(what);
    const [odd] = Object.keys(flags).filter((name) => isFile && name !== "seed" && name !== "junit");
    if (odd !== undefined) return sayTrouble(terminal, `a plan takes --seed and --junit only, got --${odd}`);
    const plan = isFile ? readFileSync(what, "utf8") : fieldsOf(what, flags);
    const read = readPlan(plan, randomInt(NUMBER_MAX));
    if (!("servers" in read)) return sayTrouble(terminal, visibleLines(read.join("\n")));
    const report = await verify({ ...read, seed: flags.seed ?? read.seed });
    if (typeof report === "string") return sayTrouble(terminal, visible(report));
    const { unproven, undecided } = report;
    const aside = undecided === 0 ? "" : `, ${undecided} call${undecided === 1 ? "" : "s"} passed undecided`;
    const [verdict, colour, code] = !report.isKept
      ? (["DOES NOT HOLD", "red", 1] as const)
      : unproven.length === 0
        ? ([`holds${aside}`, "green", 0] as const)
        : ([`NOT PROVEN: ${unproven.join("; ")}`, "yellow", 2] as const);
    terminal.out(`${visibleLines(reportText(report))}\n${paint(terminal, colour, verdict)}\n`);
    if (flags.junit !== undefined) writeFileSync(flags.junit, visibleLines(junitText(report)));
    terminal.setExitCode(code);
  } catch (error) {
    // A file that can't be read or written.
    sayTrouble(terminal, visibleLines(errorMessage(error)));
  }
}

/** The plan that the options describe. */
function fieldsOf(what: string | undefined, flags: VerifyFlags): object {
  const { server, cert, key, domain, http, header, refunds, limit, burst, algorithm, tolerance } = flags;
  const entries = http === undefined ? what : header?.join(",");
  const servers = server?.split(",");
  const limits = [{ entries, limit, burst, algorithm, tolerance }];
  return { servers, http, cert, key, domain, refunds, for: flags.for, limits };
}
