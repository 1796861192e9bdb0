// Rules in a mounted ConfigMap: files are links into `..data`, itself a link that is swapped for another folder.

import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { startTestApp } from "../support/test-app.ts";

const SWAPS = 100;
const CALLERS = 8;
/** Two files of one domain that must always say the same number. */
const FILES = ["one", "two"] as const;

const ruleFile = (key: string, amount: number) =>
  `domain: edge\ndescriptors:\n  - { key: ${key}, rate_limit: { requests_per_unit: ${amount}, unit: year } }\n`;

/** Swaps the volume to a new folder the way the kubelet does: a new folder, a new link next to the old, one rename. */
function swap(volume: string, amount: number): void {
  const folder = `..set-${amount}`;
  mkdirSync(join(volume, folder));
  for (const file of FILES) writeFileSync(join(volume, folder, `${file}.yaml`), ruleFile(file, amount));
  symlinkSync(folder, join(volume, "..data_tmp"));
  renameSync(join(volume, "..data_tmp"), join(volume, "..data"));
  rmSync(join(volume, `..set-${amount - 1}`), { recursive: true, force: true });
}

test(`${SWAPS} swaps under load: no call sees half of a set, and the last set is in force at the end`, async () => {
  const volume = temporaryFolder("headgate-configmap");
  const first = 1_000_000;
  swap(volume, first);
  for (const file of FILES) symlinkSync(join("..data", `${file}.yaml`), join(volume, `${file}.yaml`));
  const app = await startTestApp({}, { RULES_DIR: volume, MERGE_DOMAIN_CONFIG: "true" });
  const descriptors = FILES.map((key) => ({ entries: [{ key, value: "x" }] }));
  const seen = new Set<number>();
  const wrong: unknown[] = [];
  let isOver = false;
  const caller = async () => {
    while (!isOver) {
      const { statuses } = await app.ask({ domain: "edge", descriptors });
      const [one, two] = statuses.map(({ current_limit: limit }) => limit?.requests_per_unit);
      if (one === undefined || one !== two) wrong.push(statuses);
      else seen.add(one);
      await sleep(1); // so that reloads, which are what is tested, get the processor
    }
  };
  try {
    const callers = Array.from({ length: CALLERS }, caller);
    for (let i = 1; i <= SWAPS; i++) {
      swap(volume, first + i);
      // Real time: a watcher and a reload must have their chance between and in the middle of swaps.
      await sleep(5);
      if (i % 10 === 0) await expect.poll(() => seen.has(first + i)).toBe(true);
    }
    await expect.poll(() => seen.has(first + SWAPS), { timeout: 20_000 }).toBe(true);
    isOver = true;
    await Promise.all(callers);
    expect(wrong).toEqual([]);
    expect(seen.size).toBeGreaterThan(2);
    expect((await (await app.http("/config")).text()).includes('"last_error": null')).toBe(true);
  } finally {
    isOver = true;
  }
});
