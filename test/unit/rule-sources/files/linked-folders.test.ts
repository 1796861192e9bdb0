// Links that make a small directory look large: each level links twice or more to the next, so folders double at every level.

import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FOLDERS_MAX, readRuleFiles } from "../../../../src/rule-sources/files/read-files.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

/** A directory whose folders, links followed, are `links` to the power of each level. */
function linkedTree(levels: number, links: number): string {
  const root = temporaryFolder("headgate-links");
  const directory = join(root, "rules");
  for (let level = 0; level <= levels; level++) {
    const here = level === 0 ? directory : join(root, `level-${level}`);
    mkdirSync(here, { recursive: true });
    if (level === levels) writeFileSync(join(here, "rules.yaml"), "domain: d\n");
    else for (let i = 0; i < links; i++) symlinkSync(join(root, `level-${level + 1}`), join(here, `link-${i}`));
  }
  return directory;
}

test.each([
  { levels: 1, links: 2 },
  { levels: 3, links: 3 },
  { levels: 6, links: 2 },
])("$levels levels of $links links are read through", async ({ levels, links }) => {
  const { files, failures } = await readRuleFiles(linkedTree(levels, links));
  expect(failures).toEqual([]);
  expect(files).toHaveLength(links ** levels);
});

// Promise(rules): Links that double a tree of rule files are rejected with one sentence.
test.each([
  { levels: 10, links: 2 },
  { levels: 30, links: 2 },
  { levels: 5, links: 6 },
  { levels: 1, links: 1_500 },
])("$levels levels of $links links are refused with one sentence, soon", async ({ levels, links }) => {
  const { files, failures } = await readRuleFiles(linkedTree(levels, links));
  expect(failures).toHaveLength(1);
  expect(failures[0]?.message).toContain(`more than ${FOLDERS_MAX} folders, following links`);
  expect(files.length).toBeLessThanOrEqual(FOLDERS_MAX);
});
