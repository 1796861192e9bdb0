// How a bench tells what it found: a table on the screen, and a dated JSON file with the machine beside it.

import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import os from "node:os";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../..");

/** The machine, the versions and the commit that a figure belongs to. */
export function describeMachine() {
  return {
    cpu: os.cpus()[0]?.model ?? "unknown",
    cores: os.cpus().length,
    memoryGiB: Math.round(os.totalmem() / 2 ** 30),
    platform: `${os.platform()} ${os.release()}`,
    node: process.version,
    commit: tryRun("git", ["-C", ROOT, "rev-parse", "--short", "HEAD"]),
    h2load: tryRun("h2load", ["--version"]).replace(/^.*nghttp2\//s, ""),
    redis: tryRun("redis-server", ["--version"]).match(/v=([\d.]+)/)?.[1] ?? "unknown",
    headgate: JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).version,
  };
}

/** Prints rows (objects with the same keys) as an aligned table. */
export function printTable(title, rows) {
  if (rows.length === 0) return;
  const columns = Object.keys(rows[0]);
  const cells = rows.map((row) => columns.map((column) => String(row[column])));
  const widths = columns.map((column, i) => Math.max(column.length, ...cells.map((row) => row[i].length)));
  const line = (row) => row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join("  ");
  process.stdout.write(`\n${title}\n${line(columns)}\n${widths.map((width) => "-".repeat(width)).join("  ")}\n`);
  for (const row of cells) process.stdout.write(`${line(row)}\n`);
}

/** Writes the results as JSON under bench/results and returns the file's path. */
export function writeResults(name, command, results, now = new Date()) {
  const folder = join(ROOT, "bench/results");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${now.toISOString().slice(0, 10)}-${name}.json`);
  const report = { name, command, date: now.toISOString(), machine: describeMachine(), results };
  writeFileSync(file, `${JSON.stringify(report, null, 2)}\n`);
  return file;
}

/** The middle value of a list of numbers, or the mean of the two in the middle. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** How busy the machine is with anything at all: mean number of processes that want to run, over the last minute. */
export function busyness() {
  return { load1: Number(os.loadavg()[0].toFixed(1)), cores: os.cpus().length, at: new Date().toISOString() };
}

/** Shows what is being done, on a terminal only. */
export function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

/** Says how far a run is, where nobody would see `progress`: one line that stays. */
export function tell(text) {
  if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");
  process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${text}\n`);
}

function tryRun(command, args) {
  try {
    return execFileSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return "unknown";
  }
}
