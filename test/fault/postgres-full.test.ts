// PostgreSQL's disk is full: its files may not grow any more. Payments are refused and said to be, nothing is lost, and it
// heals by itself once there is room. Staged by a limit on the size of its files (`prlimit`, of util-linux), which PostgreSQL calls
// a trouble of its own where it would call a full disk by name.

import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Verdict } from "../../src/engine/domain/take.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { debtOf, openPostgresRig } from "./postgres-rig.ts";
import { groupOn, settle, until } from "./store-rig.ts";

/** Above the size of a file of the write-ahead log: without that the whole server would end. */
const FILE_BYTES_MAX = 17 * 1024 * 1024;
// At random: PostgreSQL would make short work of anything else.
const KEY_LENGTH = 800;
const GROUPS_AT_ONCE = 64;
const ROUNDS_MAX = 400;

function limitFileSize(server: PostgresServer, bytes: number | "unlimited"): void {
  const [postmaster = ""] = readFileSync(join(server.directory, "data", "postmaster.pid"), "utf8").split("\n");
  const { stdout } = spawnSync("pgrep", ["-P", postmaster], { encoding: "utf8" });
  // As the user that the server runs as: limits of others are not ours to set.
  const { uid, gid } = statSync(join(server.directory, "data"));
  for (const pid of [postmaster, ...stdout.split("\n").filter(Boolean)]) {
    spawnSync("prlimit", [`--fsize=${bytes}:unlimited`, "--pid", pid], { uid, gid });
  }
}

// Promise(postgres): A full disk stops payments only, and heals.
test.skipIf(spawnSync("prlimit", ["--version"]).status !== 0)(
  "a PostgreSQL whose disk is full refuses payments and says why; it heals once there is room",
  async () => {
    const server = await PostgresServer.start();
    const { store, reports } = await openPostgresRig({ target: server.target(), deadlineMs: 5_000 });
    await settle(store, groupOn("before"));
    limitFileSize(server, FILE_BYTES_MAX);
    let isFull = false;
    for (let round = 0; round < ROUNDS_MAX && !isFull; round++) {
      const key = () => randomBytes(KEY_LENGTH / 2).toString("hex");
      const groups = await Promise.all(Array.from({ length: GROUPS_AT_ONCE }, () => settle(store, groupOn(key()))));
      isFull = groups.some(({ verdict }) => verdict === Verdict.failed);
    }
    expect(isFull).toBe(true);
    expect(reports.failures[0]).toMatchObject({ code: "STORE_COMMAND" });
    // Which of the two depends on the file that could not grow first.
    expect(reports.failures[0]?.message).toMatch(/has (a disk problem|an internal error)/);
    limitFileSize(server, "unlimited");
    await until("it pays again", async () => {
      const probe = await settle(store, groupOn("after".padEnd(KEY_LENGTH, "y")));
      return probe.verdict === Verdict.allowed;
    });
    expect(await debtOf(server, "before")).toBe(1);
  },
);
