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
  await expect.poll(() => process.log.some((line) => line.includes("rules are unchanged"))).toBe(true);
  expect(await process.stop()).toBe(0);
});
