// Files that rotate: no line is lost or cut, none is longer than it may be, and as many are kept as may be.

import { existsSync, mkdtempSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { RotatingFile } from "../../../src/operate/telemetry/rotating-file.ts";
import { runs } from "../../support/runs.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const root = temporaryFolder("headgate-rotating");
const newFile = () => join(mkdtempSync(join(root, "run-")), "log.jsonl");

/** A file that notes what became of its lines, and fails the test at trouble, unless it is to note that, too. */
function open(file: string, options: Partial<ConstructorParameters<typeof RotatingFile>[0]> = {}) {
  const ends = { written: 0, lost: 0 };
  const rotating = new RotatingFile({
    file,
    bytesMax: 100,
    filesMax: 2,
    onTrouble: (message) => expect.fail(message),
    onEnd: (written, lost) => {
      ends.written += written;
      ends.lost += lost;
    },
    ...options,
  });
  return { rotating, ends };
}

// Promise(simulations): The decision log's files stay within their bounds, and rotation cuts and loses no line.
test("keep the newest lines, whole and in order, whatever their lengths", async () => {
  const lines = fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(
      lines,
      fc.integer({ min: 50, max: 400 }),
      fc.integer({ min: 1, max: 4 }),
      async (lengths, bytesMax, filesMax) => {
        const file = newFile();
        const { rotating, ends } = open(file, { bytesMax, filesMax });
        const written = lengths.map((length, i) => `${i} ${"x".repeat(length)}`);
        for (const line of written) expect(rotating.write(line)).toBe(true);
        await rotating.close();
        expect(ends).toEqual({ written: written.length, lost: 0 });
        const names = [file, ...Array.from({ length: 6 }, (_, i) => `${file}.${i + 1}`)].filter((name) =>
          existsSync(name),
        );
        expect(names.length).toBeLessThanOrEqual(filesMax);
        const kept = names.reverse().map((name) => readFileSync(name, "utf8"));
        const keptLines = kept.join("").split("\n").slice(0, -1);
        expect(keptLines).toEqual(written.slice(written.length - keptLines.length));
        expect(keptLines.length).toBeGreaterThan(0);
        for (const text of kept) {
          const isOneLine = text.indexOf("\n") === text.length - 1;
          expect(isOneLine || text.length <= bytesMax).toBe(true);
        }
      },
    ),
    { numRuns: runs(50) },
  );
});

test("go on in a file that is there, readable by its owner alone", async () => {
  const file = newFile();
  for (const line of ["one", "two"]) {
    const { rotating } = open(file);
    rotating.write(line);
    await rotating.close();
  }
  expect(readFileSync(file, "utf8")).toBe("one\ntwo\n");
  expect(statSync(file).mode & 0o777).toBe(0o600);
});

test("begin a line of their own where a file ends within one", async () => {
  const file = newFile();
  writeFileSync(file, "whole\ncu");
  const { rotating, ends } = open(file);
  rotating.write("next");
  await rotating.close();
  expect(readFileSync(file, "utf8")).toBe("whole\ncu\nnext\n");
  expect(ends).toEqual({ written: 1, lost: 0 });
});

test("say when they can't be written, and block no caller", async () => {
  const blocked = newFile();
  writeFileSync(blocked, "");
  const troubles: string[] = [];
  const { rotating, ends } = open(join(blocked, "log"), { onTrouble: (message) => troubles.push(message) });
  expect(rotating.write("line")).toBe(true);
  expect(rotating.write("another")).toBe(true);
  await rotating.close();
  expect(troubles).toEqual([expect.stringContaining("ENOTDIR")]);
  expect(ends).toEqual({ written: 0, lost: 2 });
});

test("take no more than a bound while the disk is behind", async () => {
  const { rotating } = open(newFile(), { bytesMax: 1e9, filesMax: 1 });
  const line = "x".repeat(1_000_000);
  expect([1, 2, 3, 4, 5].map(() => rotating.write(line))).toEqual([true, true, true, true, false]);
  await rotating.close();
});
