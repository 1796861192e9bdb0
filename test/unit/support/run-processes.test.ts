// A process that a run has left is found by its folder, with the port that it listens on; nobody else's is.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { ownProcess } from "../../support/child-processes.ts";
import { processesOf } from "../../support/run-processes.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { leftAfter } from "../../support/test-run.ts";

const LISTENS = `const server = require("node:net").createServer().listen(0, "127.0.0.1", () => console.log(server.address().port))`;

test.each([
  { name: "environment", options: (folder: string) => ({ env: { ...process.env, TMPDIR: folder } }) },
  { name: "working directory", options: (folder: string) => ({ cwd: folder }) },
])("a process with the run's folder as its $name is found with its port", async ({ options }) => {
  const [folder, other] = [temporaryFolder("run"), temporaryFolder("other")];
  const stdio = ["ignore", "pipe", "ignore"] as ["ignore", "pipe", "ignore"];
  const child = ownProcess(spawn(process.execPath, ["-e", LISTENS], { ...options(folder), stdio }));
  const [port] = await once(child.stdout, "data");
  const found = process.platform === "linux" ? [[child.pid, [Number(port)]]] : [];
  expect(processesOf(folder).map(({ pid, ports }) => [pid, ports])).toEqual(found);
  expect(processesOf(other)).toEqual([]);
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(processesOf(folder)).toEqual([]);
});

test("what was gone at one look is not left behind, whatever a further look would meet", async () => {
  const looks = [["server"], [], ["ends just now"]];
  expect(await leftAfter(() => looks.shift() ?? [], 5_000)).toEqual([]);
  expect(await leftAfter(() => ["server"], 60)).toEqual(["server"]);
});
