// `headgate doctor`: asks the processes of a service what is wrong, and compares them.

import { type Clock, SystemClock } from "../../base/clock.ts";
import { isRecord } from "../../base/is-record.ts";
import { type AdminTarget, askAdmin } from "./admin-call.ts";
import { askingAll, type ProgramCommand } from "./command.ts";
import { doctorReport, doctorText, type Heard, type Silent, type State } from "./doctor-report.ts";
import { jsonText, type Terminal } from "./terminal.ts";

interface DoctorFlags {
  readonly server: readonly string[];
  readonly tokenFile?: string;
  readonly json?: true;
}

/** Adds the command. */
export function addDoctor(program: ProgramCommand, terminal: Terminal): void {
  askingAll(program, "doctor", "see what is wrong with running processes and where they differ")
    .description(
      "Shows what is wrong, since when and what to do, for all processes that share the server's store. Given several" +
        " servers, it also compares their rules, versions, settings and clocks. Exits 0 if all is well, 1 if anything is" +
        " wrong or differs, 2 if it can't reach a process (it still reports the others). Sends the token of" +
        " --token-file, ADMIN_TOKEN or ADMIN_TOKEN_FILE.",
    )
    .examples(`
  headgate doctor
  headgate doctor --server ratelimit-0:8080,ratelimit-1:8080 --token-file token
  headgate doctor --json | jq '.conditions[].says'
`)
    .action((flags: DoctorFlags) => doctor(flags, terminal));
}

async function doctor({ server: servers, tokenFile, json }: DoctorFlags, terminal: Terminal): Promise<void> {
  const clock = new SystemClock();
  // One process reports for all that share its store; several report for themselves.
  const page = servers.length === 1 ? "/state" : "/state?scope=process";
  const report = doctorReport(
    await Promise.all(servers.map((server) => hear({ server, tokenFile }, page, terminal, clock))),
  );
  terminal.out(json ? jsonText(report) : doctorText(report, terminal));
  terminal.setExitCode(report.exit_code);
}

async function hear(target: AdminTarget, page: string, terminal: Terminal, clock: Clock): Promise<Heard | Silent> {
  const server = target.server.replace(/^http:\/\//, "");
  const errors: string[] = [];
  const err = (text: string) => errors.push(text.trim());
  const own: Terminal = { ...terminal, isColoured: false, err, setExitCode: () => undefined };
  const askedMs = clock.nowUs() / 1_000;
  const state = await askAdmin<State>(target, page, "conditions", own);
  const heardMs = clock.nowUs() / 1_000;
  if (state === undefined) return { server, error: errors.join() };
  if (!isRecord(state.rules) || !isRecord(state.calls) || Number.isNaN(Date.parse(state.at)))
    return { server, error: "the answer is not from a Headgate of this version" };
  const config = await askAdmin<{ settings: Heard["settings"] }>(target, "/config", "settings", own);
  return { server, state, settings: config?.settings ?? {}, settingsError: errors[0], askedMs, heardMs };
}
