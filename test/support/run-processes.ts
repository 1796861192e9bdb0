// Processes that belong to a run of the tests, found in /proc: those that have the run's folder in their environment, their
// command line, or as the folder that they work in. Elsewhere than on Linux none is found.

import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";

export interface RunProcess {
  readonly pid: number;
  readonly command: string;
  /** TCP ports that it listens on. */
  readonly ports: readonly number[];
}

/** Those of the run with this folder, but for Vitest's own. */
export function processesOf(folder: string): readonly RunProcess[] {
  if (!existsSync("/proc/self/environ")) return [];
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  const ours = pids.filter((pid) => belongsTo(pid, folder) && !isVitests(pid));
  if (ours.length === 0) return [];
  const listening = listeningSockets();
  return ours.map((pid) => ({ pid: Number(pid), command: commandOf(pid), ports: portsOf(pid, listening) }));
}

function belongsTo(pid: string, folder: string): boolean {
  const texts = [() => textOf(pid, "environ"), () => textOf(pid, "cmdline"), () => readlinkSync(`/proc/${pid}/cwd`)];
  return stateOf(pid) !== "Z" && texts.some((text) => orNothing(text).includes(folder));
}

/** A child of this process that runs test files: it ends when Vitest does. */
function isVitests(pid: string): boolean {
  const parent = /^\d+ \(.*\) \S (\d+)/s.exec(orNothing(() => textOf(pid, "stat")))?.[1];
  return parent === String(process.pid) && commandOf(pid).includes("vitest");
}

function stateOf(pid: string): string {
  return /^\d+ \(.*\) (\S)/s.exec(orNothing(() => textOf(pid, "stat")))?.[1] ?? "Z";
}

function commandOf(pid: string): string {
  return orNothing(() => textOf(pid, "cmdline"))
    .replaceAll("\0", " ")
    .trim();
}

function portsOf(pid: string, listening: ReadonlyMap<string, number>): readonly number[] {
  const links = orNothing(() =>
    readdirSync(`/proc/${pid}/fd`)
      .map((fd) => orNothing(() => readlinkSync(`/proc/${pid}/fd/${fd}`)))
      .join("\n"),
  );
  const inodes = [...links.matchAll(/^socket:\[(\d+)\]$/gm)].map(([, inode = ""]) => inode);
  return [...new Set(inodes.flatMap((inode) => listening.get(inode) ?? []))];
}

/** Ports of the sockets that listen, by the socket's inode. */
function listeningSockets(): ReadonlyMap<string, number> {
  const LISTEN = "0A";
  const rows = ["tcp", "tcp6"].flatMap((table) =>
    orNothing(() => readFileSync(`/proc/net/${table}`, "utf8")).split("\n"),
  );
  return new Map(
    rows
      .map((row) => row.trim().split(/\s+/))
      .filter((columns) => columns[3] === LISTEN)
      .map((columns) => [columns[9] ?? "", Number.parseInt(columns[1]?.split(":")[1] ?? "0", 16)]),
  );
}

function textOf(pid: string, file: string): string {
  return readFileSync(`/proc/${pid}/${file}`, "latin1");
}

/** What is read, or nothing if the process has ended meanwhile or belongs to somebody else. */
function orNothing(read: () => string): string {
  try {
    return read();
  } catch {
    return "";
  }
}
