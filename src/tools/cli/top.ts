// `headgate top`: who asks a running service and whom it refuses, as a table that refreshes.

import { setTimeout as sleep } from "node:timers/promises";
import { Option } from "commander";
import { MICROS_PER_MILLI } from "../../base/units.ts";
import { mergeSummaries } from "../../operate/telemetry/top/summary.ts";
import { type ProcessTop, type TopView, topView } from "../../operate/telemetry/top/top-view.ts";
import { askAdmin } from "./admin-call.ts";
import { duration, typed, whole } from "./arguments.ts";
import { askingAll, type ProgramCommand } from "./command.ts";
import { jsonText, type Terminal } from "./terminal.ts";
import { topText } from "./top-text.ts";

interface TopFlags {
  readonly server: readonly string[];
  readonly tokenFile?: string;
  readonly window: "minute" | "hour";
  readonly by: "refused" | "asked";
  readonly keys: number;
  readonly every: number;
  readonly once?: true;
  readonly json?: true;
}

/** Most keys that /top lists. */
const KEYS_MAX = 100;
/** Moves the cursor to the corner and clears the screen. */
const TO_THE_CORNER = "\x1b[H\x1b[2J";

/** Adds the command. `untilStopped` resolves when the table should end; by default a signal ends the process. */
export function addTop(program: ProgramCommand, terminal: Terminal, untilStopped?: () => Promise<void>): void {
  askingAll(
    program,
    "top",
    "see who is refused right now, by which rule, and since when",
    "print one answer as JSON and exit",
  )
    .description(
      "Shows the keys that are refused or asked most, over all processes that share the server's store, or over the" +
        " servers given. Refreshes until Ctrl-C; prints once if the output is not a terminal. Exits 2 if the first" +
        " request to any process fails (it still shows the others), else 0. Sends the token of --token-file," +
        " ADMIN_TOKEN or ADMIN_TOKEN_FILE.",
    )
    .addOption(new Option("--window <window>", "period to show").choices(["minute", "hour"]).default("minute"))
    .addOption(new Option("--by <count>", "what to rank by").choices(["refused", "asked"]).default("refused"))
    .option("-k, --keys <n>", "number of keys to show", whole(1, KEYS_MAX), 20)
    .addOption(typed("--every <time>", "refresh interval", duration(200, 3_600_000), "2s"))
    .option("--once", "print one table and exit")
    .examples(`
  headgate top
  headgate top --by asked --window hour --once
  headgate top --server ratelimit-0:8080,ratelimit-1:8080 --token-file token
`)
    .action((flags: TopFlags) => top(flags, terminal, untilStopped));
}

async function top(flags: TopFlags, terminal: Terminal, untilStopped?: () => Promise<void>): Promise<void> {
  const first = await ask(flags, terminal);
  if (first === undefined) return;
  if (flags.json) terminal.out(jsonText(first));
  else if (flags.once || terminal.screenColumns === undefined) terminal.out(topText(first, terminal));
  else await refresh(first, flags, terminal, untilStopped);
}

async function refresh(
  first: TopView,
  flags: TopFlags,
  terminal: Terminal,
  untilStopped: () => Promise<void> = () => new Promise(() => undefined),
): Promise<void> {
  const stopping = new AbortController();
  const { signal } = stopping;
  void untilStopped().then(() => stopping.abort());
  let shown: TopView | undefined = first;
  while (!signal.aborted) {
    // Without an answer the last table stays, with the reason below it.
    if (shown !== undefined) terminal.out(`${TO_THE_CORNER}${topText(shown, terminal)}`);
    await sleep(flags.every, undefined, { signal }).catch(() => undefined);
    if (!signal.aborted) shown = await ask(flags, terminal);
  }
  terminal.setExitCode(0);
}

/** Undefined, with the reasons on standard error, if no process answers. */
async function ask({ server: servers, tokenFile, window, by, keys }: TopFlags, terminal: Terminal) {
  const path = `/top?window=${window}&by=${by}&keys=`;
  const [server = "", ...others] = servers;
  if (others.length === 0) return askAdmin<TopView>({ server, tokenFile }, `${path}${keys}`, "keys", terminal);
  // All keys of each: unlisted ones make sums less certain.
  const answers = await Promise.all(
    servers.map((each) =>
      askAdmin<ProcessTop>({ server: each, tokenFile }, `${path}${KEYS_MAX}&scope=process`, "summary", terminal),
    ),
  );
  // One process may have several addresses.
  const byInstance = new Map(answers.flatMap((answer) => (answer === undefined ? [] : [[answer.instance, answer]])));
  const tops = [...byInstance.values()];
  if (tops.length === 0) return undefined;
  const nowUs = Math.max(...tops.map(({ at }) => Date.parse(at))) * MICROS_PER_MILLI;
  const merged = mergeSummaries(tops.map(({ summary }) => summary));
  return topView({ window, by, keys }, merged, nowUs, { processes: tops.length });
}
