// Lines of a log in files: none is cut or lost while another program rotates them, and what can't be written makes nobody wait.

import { execFileSync } from "node:child_process";
import { constants, mkdtempSync, openSync, readFileSync, readSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { FileLines } from "../../../../src/operate/telemetry/file-lines.ts";
import { runs } from "../../../support/runs.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const root = temporaryFolder("headgate-file-lines");
const newFile = () => join(mkdtempSync(join(root, "run-")), "log.jsonl");
const open = (file: string) => FileLines.open(file, ({ message }) => expect.fail(message));
const GRACE_MS = 30_000;

// Promise(simulations): While another program rotates the decision log, no line is cut or lost.
test("a file that is renamed and reopened at any time keeps all lines, whole and in order", async () => {
  const step = fc.oneof(fc.integer({ min: 1, max: 40_000 }), fc.constantFrom("rotate", "wait"));
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      const file = newFile();
      const lines = open(file);
      const written: string[] = [];
      let rotated = 0;
      for (const each of steps) {
        if (each === "rotate") {
          renameSync(file, `${file}.${++rotated}`);
          lines.reopen();
          // Until it is there again: the next program that renames it would find none.
          await vi.waitUntil(() => statSync(file, { throwIfNoEntry: false }), { interval: 1 });
        } else if (each === "wait") await nextTurn();
        else if (lines.write(`${written.length} ${"x".repeat(each as number)}\n`))
          written.push(`${written.length} ${"x".repeat(each as number)}`);
      }
      await lines.close(GRACE_MS);
      const files = Array.from({ length: rotated }, (_, i) => `${file}.${i + 1}`);
      const kept = [...files, file].map((name) => readFileSync(name, "utf8"));
      expect(kept.filter((text) => text !== "" && !text.endsWith("\n"))).toEqual([]);
      expect(kept.join("").split("\n").slice(0, -1)).toEqual(written);
    }),
    { numRuns: runs(50) },
  );
});

test("goes on in a file that is there, on a line of its own, readable by its owner alone", async () => {
  const file = newFile();
  for (const line of ["one\n", "tw"]) {
    const lines = open(file);
    lines.write(line);
    await lines.close(GRACE_MS);
  }
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const lines = open(file);
  lines.write("three\n");
  await lines.close(GRACE_MS);
  expect(readFileSync(file, "utf8")).toBe("one\ntw\nthree\n");
  expect(lines.write("late\n")).toBe(false);
});

test("a file that can't be opened throws at the start", () => {
  const blocked = newFile();
  writeFileSync(blocked, "");
  expect(() => open(join(blocked, "log"))).toThrow("ENOTDIR");
});

test("a full disk loses what is beyond the bound, and is said to be full", async () => {
  const troubles: string[] = [];
  const lines = new FileLines(openSync("/dev/full", "w"), ({ message }) => troubles.push(message));
  const line = `${"x".repeat(300_000)}\n`;
  expect([1, 2, 3, 4].map(() => lines.write(line))).toEqual([true, true, true, false]);
  await lines.close(GRACE_MS);
  expect(troubles).toEqual([expect.stringContaining("ENOSPC")]);
});

test("a file that hangs makes neither a caller nor the end wait, and gets its lines when it answers", async () => {
  const pipe = newFile();
  execFileSync("mkfifo", [pipe]);
  // A write to it hangs once it is full, as one to a file on a server that is away.
  const fd = openSync(pipe, constants.O_RDWR);
  const lines = new FileLines(fd, ({ message }) => expect.fail(message));
  const line = `${"x".repeat(199_999)}\n`;
  expect([1, 2, 3, 4, 5, 6].map(() => lines.write(line))).toEqual([true, true, true, true, true, false]);
  await lines.close(10);
  const rest = lines.close(GRACE_MS);
  let read = 0;
  while (read < 5 * line.length) {
    read += readSync(fd, Buffer.alloc(65_536));
    await nextTurn();
  }
  await rest;
  expect(read).toBe(5 * line.length);
});
