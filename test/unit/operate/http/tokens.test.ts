// Tokens from a file: what may stand in it, and what happens when it changes.

import { rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Tokens } from "../../../../src/operate/http/tokens.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const FIRST = "first-token-of-operators";
const SECOND = "second-token-of-operators";

let folder: string;
let file: string;
beforeEach(async () => {
  folder = temporaryFolder("headgate-tokens");
  file = join(folder, "token");
});
afterEach(() => rm(folder, { recursive: true, force: true }));

function open() {
  const clock = new ManualClock();
  const events: string[] = [];
  const log = {
    info: ({ names }: { names: readonly string[] }) => events.push(`changed: ${names.join()}`),
    warn: () => events.push("revoked"),
    error: ({ why }: { why: string }) => events.push(`refused: ${why}`),
  };
  const troubles: (string | undefined)[] = [];
  const onTrouble = (trouble: string | undefined) => troubles.push(trouble);
  const tokens = new Tokens({ adminToken: undefined, adminTokenFile: file }, clock, log as never, onTrouble);
  /** Names after the file may be looked at again. */
  const later = (text: string) => {
    clock.advanceSeconds(2);
    return tokens.nameOf(text);
  };
  return { tokens, later, events, troubles };
}

test("one per line, with a name or without, comments and blank lines aside", async () => {
  await writeFile(file, `# who may\n\nalice ${FIRST}\r\n  ${SECOND}  \n`);
  const { tokens } = open();
  expect([FIRST, SECOND, "alice", ""].map((text) => tokens.nameOf(text))).toEqual([
    "alice",
    "line 4",
    undefined,
    undefined,
  ]);
});

// Promise(operators): A changed token file is in force without a restart.
test("a changed file is in force without a restart: the old token ends, the new one begins", async () => {
  await writeFile(file, FIRST);
  const { later, events } = open();
  await writeFile(file, `bob ${SECOND}`);
  expect([later(FIRST), later(SECOND)]).toEqual([undefined, "bob"]);
  expect(events).toEqual(["changed: bob"]);
});

test("a link that is swapped, as Kubernetes does, counts as a change", async () => {
  await writeFile(join(folder, "a"), FIRST);
  await writeFile(join(folder, "b"), FIRST.replace("first", "other"));
  await symlink("a", file);
  const { later } = open();
  await symlink("b", join(folder, "next"));
  await rename(join(folder, "next"), file);
  expect([later(FIRST), later(FIRST.replace("first", "other"))]).toEqual([undefined, "line 1"]);
});

// Promise(operators): Emptying or deleting ADMIN_TOKEN_FILE revokes all tokens, and the page says so.
test.each([
  { name: "emptied", change: () => writeFile(file, "") },
  { name: "left with a comment", change: () => writeFile(file, `# ${FIRST}\n\n`) },
  { name: "deleted", change: () => rm(file) },
  { name: "a link to nothing", change: () => linkInstead("nothing") },
])("a file that is $name revokes all tokens, is logged once, and may have tokens again", async ({ change }) => {
  await writeFile(file, FIRST);
  const { tokens, later, events, troubles } = open();
  await change();
  expect([later(FIRST), later(FIRST), later(""), tokens.isAsked]).toEqual([undefined, undefined, undefined, true]);
  expect([events, troubles]).toEqual([["revoked"], [expect.stringMatching(/no admin token is in force/)]]);
  await rm(file, { force: true });
  await writeFile(file, `carol ${SECOND}`);
  expect([later(SECOND), later(FIRST), troubles.at(-1)]).toEqual(["carol", undefined, undefined]);
});

async function linkInstead(target: string): Promise<void> {
  await symlink(target, join(folder, "next"));
  await rename(join(folder, "next"), file);
}

test.each([
  { name: "filled with nonsense", change: () => writeFile(file, Buffer.from([0, 255, 1])), says: /line 1/ },
  { name: "given a token that is short", change: () => writeFile(file, "short"), says: /16 to 1024 .* line 1/ },
  { name: "a link to itself", change: () => linkInstead("token"), says: /ELOOP/ },
  { name: "a link into a file", change: () => linkInstead("/dev/null/token"), says: /ENOTDIR/ },
])("a file that is $name leaves the previous tokens in force, and is logged once", async ({ change, says }) => {
  await writeFile(file, FIRST);
  const { later, events, troubles } = open();
  await change();
  expect([later(FIRST), later(FIRST), later("short")]).toEqual(["line 1", "line 1", undefined]);
  expect([events, troubles]).toEqual([[expect.stringMatching(says)], [expect.stringMatching(says)]]);
  await rm(file, { force: true });
  await writeFile(file, `carol ${SECOND}`);
  expect(later(SECOND)).toBe("carol");
});

test.each([
  { name: "no token", text: "# none\n", says: /found none/ },
  { name: "a token of 15 characters", text: "a".repeat(15), says: /16 to 1024/ },
  { name: "three words", text: `alice bob ${FIRST}`, says: /`token` or `name token` in line 1/ },
  { name: "a name with odd characters", text: `al"ice ${FIRST}`, says: /line 1/ },
  { name: "too many", text: Array.from({ length: 65 }, (_, i) => `${FIRST}${i}`).join("\n"), says: /at most 64/ },
])("a file with $name at start is a mistake that names no token", async ({ text, says }) => {
  await writeFile(file, text);
  expect(open).toThrow(says);
  expect(() => open()).not.toThrow(text.trim().slice(0, 15));
});
