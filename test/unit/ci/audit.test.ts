// The audit step, with a stand-in for npm: the registry's answers can't be had on demand.

import { spawnSync } from "node:child_process";
import { chmod, rm, writeFile } from "node:fs/promises";
import { delimiter, join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const SCRIPT = resolve(import.meta.dirname, "../../../.ci/audit.mjs");
let folder: string;

beforeAll(async () => {
  folder = temporaryFolder("headgate-audit");
});
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function audit(answer: string): Promise<{ status: number | null; stdout: string }> {
  await writeFile(join(folder, "answer"), answer);
  await writeFile(join(folder, "npm"), `#!/bin/sh\ncat "${join(folder, "answer")}"\nexit 1\n`);
  await chmod(join(folder, "npm"), 0o755);
  const env = { ...process.env, PATH: `${folder}${delimiter}${process.env.PATH}` };
  return spawnSync(process.execPath, [SCRIPT], { encoding: "utf8", env });
}

const entry = (severity: string) => ({
  [severity]: { name: `some-${severity}`, severity, range: "<2", isDirect: true },
});

test.each([
  { name: "nothing is known", answer: JSON.stringify({ vulnerabilities: {} }), status: 0, says: /^0 packages/ },
  {
    name: "something is moderate",
    answer: answerOf("moderate"),
    status: 0,
    says: /moderate: some-moderate <2\n1 pack/,
  },
  { name: "something is high", answer: answerOf("low", "high"), status: 1, says: /2 packages .*, 1 of them high/ },
  { name: "something is critical", answer: answerOf("critical"), status: 1, says: /critical: some-critical/ },
  { name: "the registry refuses", answer: '{"message":"405","error":{}}', status: 0, says: /nothing was checked/ },
  { name: "there is no answer", answer: "", status: 0, says: /nothing was checked/ },
])("ends with $status when $name", async ({ answer, status, says }) => {
  const result = await audit(answer);
  expect(result).toMatchObject({ status, stdout: expect.stringMatching(says) });
});

function answerOf(...severities: string[]): string {
  return JSON.stringify({ vulnerabilities: Object.assign({}, ...severities.map(entry)) });
}
