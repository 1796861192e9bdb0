// What a start costs and what an idle process keeps: builds, versions of Node and their options in turn, round by round, so that other
// work on the machine slows all of them. Run after `npm run build`:
//
//   node bench/start.mjs [--dist DIR]... [--node PROGRAM]... [--flags=--max-semi-space-size=1]... [--rounds 9] [--idle 5]
//                        [--rules DIR] [--env NAME=VALUE]... [--write]
//
// A start before the first round fills the compile cache. "ready": from starting the process to its log line `listening`, after which
// /readyz must say 200. "CPU": what all its threads used until then. "resident": VmRSS after --idle seconds without a call.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { cpuMicrosOf } from "./harness/cpu-time.mjs";
import { freePort } from "./harness/free-port.mjs";
import { busyness, median, printTable, progress, writeResults } from "./harness/report.mjs";

const ROOT = resolve(import.meta.dirname, "..");
const { values } = parseArgs({
  options: {
    dist: { type: "string", multiple: true, default: [join(ROOT, "dist")] },
    node: { type: "string", multiple: true, default: [process.execPath] },
    flags: { type: "string", multiple: true, default: [""] },
    rounds: { type: "string", default: "9" },
    idle: { type: "string", default: "5" },
    rules: { type: "string", default: join(ROOT, "deploy/rules") },
    env: { type: "string", multiple: true, default: [] },
    write: { type: "boolean", default: false },
  },
});
const rounds = Number(values.rounds);
const idleMs = Number(values.idle) * 1_000;
const env = Object.fromEntries(values.env.map((text) => text.split(/=(.*)/s)));

const variants = values.dist.flatMap((dist) =>
  values.node.flatMap((node) => values.flags.map((flags) => ({ dist, node, flags, found: [] }))),
);
const before = busyness();
for (const variant of variants) await measure(variant, 0);
for (let round = 1; round <= rounds; round++) {
  for (const [i, variant] of variants.entries()) {
    progress(`round ${round} of ${rounds}: ${i + 1} of ${variants.length}`);
    variant.found.push(await measure(variant, idleMs));
  }
}
progress("");

const results = variants.map(({ dist, flags, found }) => ({
  dist: relative(ROOT, dist) || ".",
  node: found[0].version,
  flags,
  ...Object.fromEntries(
    ["readyMs", "cpuMs", "residentMb", "threads"].map((what) => {
      const all = found.map((one) => one[what]);
      return [what, { least: Math.min(...all), median: median(all) }];
    }),
  ),
}));
const show = ({ least, median: middle }) => `${least.toFixed(0)}, ${middle.toFixed(0)}`;
printTable(
  `least and median of ${rounds} starts; load on the machine ${before.load1} before, ${busyness().load1} after`,
  results.map(({ dist, node, flags, readyMs, cpuMs, residentMb, threads }) => ({
    build: dist,
    Node: node,
    ...(variants.some((one) => one.flags !== "") ? { flags } : {}),
    "ready, ms": show(readyMs),
    "of the first": (readyMs.median / results[0].readyMs.median).toFixed(2),
    "CPU, ms": show(cpuMs),
    "resident, MB": show(residentMb),
    threads: threads.median,
  })),
);
if (values.write) writeResults("start", `node bench/start.mjs ${process.argv.slice(2).join(" ")}`, { before, results });

/** One start of the service with the memory store, and its end. */
async function measure({ dist, node, flags }, waitMs) {
  const [PORT, GRPC_PORT] = [await freePort(), await freePort()];
  const loopback = { HOST: "127.0.0.1", GRPC_HOST: "127.0.0.1", PORT: String(PORT), GRPC_PORT: String(GRPC_PORT) };
  const args = [...flags.split(" ").filter(Boolean), join(dist, "main.js"), "serve"];
  const startedAt = performance.now();
  const service = spawn(node, args, {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...loopback, RULES_DIR: values.rules, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const seen = [];
    for await (const line of createInterface({ input: service.stdout })) {
      seen.push(line);
      if (line.includes('"listening"')) break;
    }
    const readyMs = performance.now() - startedAt;
    const cpuMs = cpuMicrosOf(service.pid) / 1_000;
    const { status } = await fetch(`http://127.0.0.1:${PORT}/readyz`);
    if (status !== 200) throw new Error(`/readyz answered ${status}; the service said:\n${seen.join("\n")}`);
    await pause(waitMs);
    return { readyMs, cpuMs, ...residentOf(service.pid), version: versionOf(node) };
  } finally {
    // SIGINT ends it without SHUTDOWN_DELAY, and in the usual way: only so is the compile cache written.
    service.kill("SIGINT");
    if (service.exitCode === null && service.signalCode === null) await once(service, "exit");
  }
}

function residentOf(pid) {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const numberOf = (name) => Number(new RegExp(`^${name}:\\s*(\\d+)`, "m").exec(status)?.[1]);
  return { residentMb: numberOf("VmRSS") / 1_024, threads: numberOf("Threads") };
}

function versionOf(node) {
  return execFileSync(node, ["--version"], { encoding: "utf8" }).trim();
}
