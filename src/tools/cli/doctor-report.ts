// What `headgate doctor` finds in the answers of several processes, as JSON and as text. Pure.

import { getOrInsert } from "../../base/get-or-insert.ts";
import { MICROS_PER_MILLI } from "../../base/units.ts";
import { visible } from "../../base/visible.ts";
import { joinConditions, viewConditions } from "../../operate/http/join-conditions.ts";
import type { Information } from "../../operate/telemetry/limit-trends.ts";
import { undecidedWords } from "../../operate/telemetry/undecided-calls.ts";
import { count, paint, type Terminal, wrap } from "./terminal.ts";

/** What is read of GET /state. */
export interface State {
  readonly at: string;
  readonly instance: string;
  readonly version: string;
  readonly store: string;
  readonly status: string;
  /** Absent in older versions. */
  readonly verdict?: { readonly words: readonly (string | { readonly says: string })[] };
  readonly conditions: ReturnType<typeof viewConditions>;
  readonly calls: {
    readonly allowed: number;
    readonly refused: number;
    readonly degraded: number;
    readonly errors: number;
  };
  readonly rules: { readonly hash: string | null };
  readonly information?: readonly Information[];
  readonly undecided?: { readonly causes: readonly Parameters<typeof undecidedWords>[0][] };
}

/** A server's answers. */
export interface Heard {
  readonly server: string;
  readonly state: State;
  /** From /config; empty if it could not be read. */
  readonly settings: Readonly<Record<string, string>>;
  /** Why /config could not be read. */
  readonly settingsError?: string | undefined;
  /** When the question was sent and when the answer came, in ms since the epoch. */
  readonly askedMs: number;
  readonly heardMs: number;
}

/** A server that could not be asked. */
export interface Silent {
  readonly server: string;
  readonly error: string;
}

type DoctorReport = ReturnType<typeof doctorReport>;

/** Clocks may differ by this, beyond the time that the questions took. */
const CLOCKS_DIFFER_MS = 1_000;
const HASH_CHARS = 12;

/** Settings that may differ between processes. */
const OF_ONE_PROCESS = /(?:HOST|PORT|UNIX_SOCKET|SNAPSHOT|_CACHE|DECISION_LOG|NODE_ID)$/;

/** Begins the ids of conditions that are true only of what all processes report. */
const DEAD_LIMITS = "dead limits ";

/**
 * What is wrong and what differs. `exit_code`: 2 if a server could not be asked, 1 if anything is wrong or differs,
 * else 0.
 */
export function doctorReport(answers: readonly (Heard | Silent)[]) {
  const heard = answers.filter((one) => "state" in one);
  const silent = answers.filter((one) => "error" in one);
  const conditions = conditionsOf(heard);
  const differences = findDifferences(heard);
  const isWrong = conditions.length + differences.length > 0;
  const worst: "critical" | "warning" | "well" = conditions[0]?.severity ?? (isWrong ? "warning" : "well");
  return {
    status: silent.length > 0 ? ("critical" as const) : worst,
    exit_code: silent.length > 0 ? 2 : isWrong ? 1 : 0,
    servers: answers.map((one) => ("error" in one ? one : serverRow(one))),
    conditions,
    differences,
    information: [
      ...joinInformation(heard),
      ...heard.flatMap(({ server, settingsError: why }) =>
        why === undefined ? [] : [{ says: "Its settings could not be compared:", details: [why], servers: [server] }],
      ),
    ],
  };
}

function serverRow({ server, state, askedMs, heardMs }: Heard) {
  const { at, instance, version, store, status, verdict, calls, rules } = state;
  const clockAheadMs = Math.round(Date.parse(at) - (askedMs + heardMs) / 2);
  const says = (verdict?.words ?? []).map((word) => (typeof word === "string" ? word : word.says)).join("");
  const known = { server, status, says, instance, version, store, at };
  return { ...known, clock_ahead_ms: clockAheadMs, calls, rules_hash: rules.hash };
}

function conditionsOf(heard: readonly Heard[]) {
  const states = heard.map(({ server, state }) => ({
    name: server,
    // Rules are among the differences.
    rules: { hash: null },
    conditions: state.conditions.map((condition) => ({
      ...condition,
      sinceUs: Date.parse(condition.since) * MICROS_PER_MILLI,
      needsAll: condition.id.startsWith(DEAD_LIMITS),
    })),
  }));
  return viewConditions(joinConditions(states, 0)).map(({ seen_by: servers = [], ...one }) => ({ ...one, servers }));
}

/** Notes of all processes, each once; also calls without a decision that no condition reports any more. */
function joinInformation(heard: readonly Heard[]) {
  const joined = new Map<string, { readonly says: string; readonly details: string[]; readonly servers: string[] }>();
  for (const { server, state } of heard) {
    const { information = [], undecided: { causes = [] } = {} } = state;
    const past = causes.every(({ last_hour: hour }) => hour === 0) ? causes : [];
    const told = { says: "Calls passed without a decision in the last day:", details: past.map(undecidedWords) };
    for (const { says, details } of [...information, ...(past.length === 0 ? [] : [told])]) {
      const known = getOrInsert(joined, says, () => ({ says, details: [], servers: [] }));
      known.servers.push(server);
      known.details.push(...details.filter((line) => !known.details.includes(line)));
    }
  }
  return [...joined.values()];
}

/** What is not the same everywhere. */
function findDifferences(heard: readonly Heard[]) {
  const names = new Set(heard.flatMap(({ settings }) => Object.keys(settings)));
  const shared = [...names].filter((name) => !OF_ONE_PROCESS.test(name)).sort();
  const known = heard.filter(({ settings }) => Object.keys(settings).length > 0);
  return [
    differing("version", heard, ({ state }) => state.version),
    differing("rules", heard, ({ state }) => state.rules.hash?.slice(0, HASH_CHARS) ?? "none"),
    differing("store", heard, ({ state }) => state.store),
    ...shared.map((name) => differing(`setting ${name}`, known, ({ settings }) => settings[name] ?? "unknown here")),
    differingClocks(heard),
  ].filter((one) => one !== undefined);
}

function differing(what: string, heard: readonly Heard[], read: (one: Heard) => string) {
  const values = new Map<string, string[]>();
  for (const one of heard) getOrInsert(values, read(one), () => []).push(one.server);
  return values.size < 2 ? undefined : { what, values: Object.fromEntries(values) };
}

function differingClocks(heard: readonly Heard[]) {
  const bounds = heard.map(({ state, askedMs, heardMs }) => {
    const atMs = Date.parse(state.at);
    return [atMs - heardMs, atMs - askedMs] as const;
  });
  const leastGapMs = Math.max(...bounds.map(([least]) => least)) - Math.min(...bounds.map(([, most]) => most));
  if (heard.length < 2 || leastGapMs <= CLOCKS_DIFFER_MS) return undefined;
  return differing("clock, against this host's", heard, (one) => seconds(serverRow(one).clock_ahead_ms));
}

function seconds(ms: number): string {
  return `${ms < 0 ? "-" : "+"}${(Math.abs(ms) / 1_000).toFixed(1)} s`;
}

/** One page of text. */
export function doctorText(
  { status, servers, conditions, differences, information }: DoctorReport,
  terminal: Terminal,
): string {
  const silent = servers.filter((server) => "error" in server).length;
  const found = [
    count(servers.length, "server"),
    ...(silent === 0 ? [] : [`${silent} not reached`]),
    count(conditions.length, "problem"),
    count(differences.length, "difference"),
  ];
  const blocks = [
    `${paint(terminal, COLOURS[status], status)}: ${found.join(", ")}\n${servers.map((server) => serverLines(server, terminal)).join("")}`,
    ...conditions.map(({ severity, since, servers: of, says, details, calls = [], advice, see }) => {
      const head = `${paint(terminal, COLOURS[severity], severity)}  since ${visible(since)}, on ${of.join(", ")}\n`;
      const lines = [says, ...details, ...calls.map(undecidedWords), `${advice} docs/operations.md#${see}`];
      return head + block(lines, terminal);
    }),
    ...differences.map(({ what, values }) => {
      const lines = Object.entries(values).map(([value, of]) =>
        line(`${value === "" ? "(not set)" : value}: ${of.join(", ")}`),
      );
      return `${paint(terminal, "yellow", "differs")}  ${visible(what)}\n${lines.join("")}`;
    }),
    ...information.map(({ says, details, servers: of }) => {
      return `${paint(terminal, "dim", "for information")}  ${of.join(", ")}\n${block([says, ...details], terminal)}`;
    }),
  ];
  return blocks.join("\n");
}

const COLOURS = { critical: "red", warning: "yellow", well: "green" } as const;

/** The server, and below it the first line of its page. */
function serverLines(row: DoctorReport["servers"][number], terminal: Terminal): string {
  const says = "says" in row && row.says !== "" ? block([row.says], terminal) : "";
  return line(serverWords(row)) + says;
}

function serverWords(row: DoctorReport["servers"][number]): string {
  if ("error" in row) return `${row.server}  can't be asked: ${row.error}`;
  const { server, status, version, rules_hash: hash, store, calls } = row;
  const rules = hash === null ? "no rules" : `rules ${hash.slice(0, HASH_CHARS)}`;
  const counts = `${count(calls.allowed, "call")} allowed, ${calls.refused} refused, ${calls.errors} failed; ${calls.degraded} without the store`;
  return `${server}  ${status}; ${version}, ${store}, ${rules}; ${counts}`;
}

function line(text: string): string {
  return `  ${visible(text)}\n`;
}

function block(lines: readonly string[], { columns }: Terminal): string {
  return lines.map((text) => `${wrap(visible(text), columns, "  ", "    ")}\n`).join("");
}
