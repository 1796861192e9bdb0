// Signals to a process that has just begun to listen.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

test("SIGHUP reads the rules again, also in the moment in which the process says that it listens", async () => {
  const rulesDir = temporaryFolder("headgate-rules");
  await writeFile(join(rulesDir, "rules.yaml"), "domain: edge\n");
  const process = await startService({ RULES_DIR: rulesDir });
  process.signal("SIGHUP");
  const logged = (words: string) => expect.poll(() => process.log.some((line) => line.includes(words))).toBe(true);
  await logged("rules are unchanged");
  await writeFile(join(rulesDir, "rules.yaml"), "domains: edge\n");
  process.signal("SIGHUP");
  await logged("the last good rules stay in force");
  await writeFile(join(rulesDir, "rules.yaml"), "domain: edge\n");
  process.signal("SIGHUP");
  await logged("the rules are usable again; unchanged since version 1");
  expect(await process.stop()).toBe(0);
});

test("a service without RULES_DIR warns that it serves examples, and at its end says for how long it serves on", async () => {
  const process = await startService({ SHUTDOWN_DELAY: "0.2s" });
  expect(await process.stop()).toBe(0);
  const logged = process.log.map((line) => JSON.parse(line) as { level: string; msg: string });
  expect(logged.filter(({ level }) => level === "warn").map(({ msg }) => msg)).toEqual([
    "RULES_DIR is not set: example rules are served",
  ]);
  expect(logged.map(({ msg }) => msg)).toContain("shutting down, serving for another 0.2 s (SHUTDOWN_DELAY)");
});
