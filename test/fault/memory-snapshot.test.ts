// What happens to a snapshot's file and lock when things go wrong around them: writes that break off, files of others, links,
// dead and stopped holders, many that take the lock at once. And that no turn is long for a snapshot.

import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { link } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Algorithm, HOLDS_PER_BUCKET_MAX } from "../../src/engine/domain/limit.ts";
import { TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { replaceSnapshotFile, setSnapshotAside } from "../../src/stores/memory/snapshot/snapshot-file.ts";
import { LockHeldError, SnapshotLock } from "../../src/stores/memory/snapshot/snapshot-lock.ts";
import { Snapshots } from "../../src/stores/memory/snapshot/snapshots.ts";
import { fillGroup } from "../contract/store-harness.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { onThisMachine, TurnWatch } from "../support/turn-watch.ts";

const TURN_MS_MAX = 10;
const newFile = () => join(temporaryFolder("headgate-snapshot"), "buckets");
const textOf = (path: string) => readFileSync(path, "latin1");
async function* piecesOf(text: string): AsyncGenerator<Uint8Array> {
  for (const letter of text) yield Buffer.from(letter);
}

async function* breakingOff(text: string, after: number): AsyncGenerator<Uint8Array> {
  yield* piecesOf(text.slice(0, after));
  throw new Error("the disk is full");
}

describe("a snapshot's file", () => {
  // Promise(restarts): An interrupted write leaves the previous snapshot in place.
  test("is the one before, wherever a write breaks off, and leaves nothing else", async () => {
    const path = newFile();
    const { mark } = await replaceSnapshotFile(path, undefined, piecesOf("old"));
    for (let after = 0; after <= 5; after++) {
      await expect(replaceSnapshotFile(path, mark, breakingOff("newer", after))).rejects.toThrow("the disk is full");
      expect(textOf(path)).toBe("old");
      expect(readdirSync(join(path, ".."))).toEqual(["buckets"]);
    }
    await replaceSnapshotFile(path, mark, piecesOf("newer"));
    expect(textOf(path)).toBe("newer");
  });

  // Promise(restarts): Only its owner can read a snapshot.
  test("is readable by its owner alone, whatever stood under the name that it is written to", async () => {
    const path = newFile();
    const before = process.umask(0);
    try {
      writeFileSync(join(path, "../others"), "of others");
      symlinkSync("others", `${path}.new`);
      await replaceSnapshotFile(path, undefined, piecesOf("new"));
    } finally {
      process.umask(before);
    }
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(path, "../others"), "latin1")).toBe("of others");
  });

  // Promise(restarts): One process at a time uses a snapshot, and never overwrites another's.
  test("is never written over if another process wrote it, or it was put there meanwhile", async () => {
    const path = newFile();
    const { mark } = await replaceSnapshotFile(path, undefined, piecesOf("one"));
    await expect(replaceSnapshotFile(path, undefined, piecesOf("other"))).rejects.toThrow("got another file");
    const meanwhile = async function* () {
      yield* piecesOf("two");
      writeFileSync(path, "other");
    };
    await expect(replaceSnapshotFile(path, mark, meanwhile())).rejects.toThrow("got another file");
    expect(readFileSync(path, "latin1")).toBe("other");
  });

  test("that can't be used is kept under another name, and a second one stays where it is", async () => {
    const path = newFile();
    writeFileSync(path, "bad 1");
    expect(await setSnapshotAside(path)).toBe(`${path}.refused`);
    writeFileSync(path, "bad 2");
    await expect(setSnapshotAside(path)).rejects.toThrow("which was refused before: look at it and remove it");
    expect([textOf(`${path}.refused`), textOf(path)]).toEqual(["bad 1", "bad 2"]);
  });
});

describe("a snapshot's lock", () => {
  /** Leaves what a process leaves that was killed: a socket that nobody listens on. */
  async function leaveDead(path: string): Promise<void> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(`${path}.lock`, resolve));
    await link(`${path}.lock`, `${path}.kept`);
    await new Promise((resolve) => server.close(resolve));
    renameSync(`${path}.kept`, `${path}.lock`);
  }

  // Promise(restarts): Of many processes that start at once, exactly one takes over a killed process's snapshot.
  test.each([{ dead: false }, { dead: true }])(
    "is one process's, of many that take it at once; left by a dead one: $dead",
    async ({ dead }) => {
      const path = newFile();
      for (let round = 0; round < 5; round++) {
        if (dead) await leaveDead(path);
        const tries = await Promise.allSettled(Array.from({ length: 20 }, () => SnapshotLock.take(path, 0)));
        const taken = tries.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
        const refused = tries.flatMap((one) => (one.status === "rejected" ? [one.reason as unknown] : []));
        expect(refused.filter((reason) => !(reason instanceof LockHeldError))).toEqual([]);
        const held = await Promise.all(taken.map((lock) => lock.isHeld()));
        expect(held.filter(Boolean)).toHaveLength(1);
        for (const lock of taken) await lock.release();
        expect(readdirSync(join(path, ".."))).toEqual([]);
      }
    },
  );

  test("is not taken from a holder that says nothing, nor from a file that is no lock", async () => {
    const path = newFile();
    const mute = createServer();
    await new Promise<void>((resolve) => mute.listen(`${path}.lock`, resolve));
    await expect(SnapshotLock.take(path, 0)).rejects.toThrow("says nothing of itself");
    await new Promise((resolve) => mute.close(resolve));
    const lock = await SnapshotLock.take(path, 0);
    await lock.release();
  });

  test("that somebody took away is noticed, and taken again", async () => {
    const path = newFile();
    const lock = await SnapshotLock.take(path, 0);
    rmSync(`${path}.lock`);
    expect(await lock.isHeld()).toBe(false);
    const other = await SnapshotLock.take(path, 0);
    expect([await lock.isHeld(), await other.isHeld()]).toEqual([false, true]);
    await lock.release();
    expect(await other.isHeld()).toBe(true);
    await other.release();
  });
});

describe("snapshots", () => {
  const clock = new ManualClock();
  const limit = makeLimit({ windowSeconds: 86_400 });
  const held = makeLimit({ amount: 4_000_000_000, windowSeconds: 86_400, holdSeconds: 86_400 });
  const log = makeLimit({ algorithm: Algorithm.slidingLog, amount: 1_000, windowSeconds: 86_400 });

  function take(store: MemoryStore, identity: string, of = limit, holdId = ""): boolean {
    const group = new TakeGroup();
    fillGroup(group, [{ limit: of, identity, holdId }], "", false);
    store.take(group);
    return group.verdict === Verdict.allowed;
  }

  function open(file: string, store = new MemoryStore({ clock, bucketsMax: 200_000 }), intervalMs = 3_600_000) {
    const lines: string[] = [];
    const say = (fields: object, message: string) => lines.push(`${message} ${JSON.stringify(fields)}`);
    const snapshots = new Snapshots({
      store,
      clock,
      file,
      intervalMs,
      log: { info: say, warn: say },
    });
    return { store, snapshots, lines };
  }

  test("say once that none can be written, count each, and go on when one can", async () => {
    const file = newFile();
    const { store, snapshots, lines } = open(file);
    await snapshots.open();
    take(store, "a");
    mkdirSync(`${file}.new`);
    for (let i = 0; i < 3; i++) await snapshots.write();
    expect([snapshots.state.failed, snapshots.state.written, lines.length]).toEqual([3, 0, 1]);
    expect(snapshots.state.trouble).toContain(".new");
    rmSync(`${file}.new`, { recursive: true });
    await snapshots.write();
    expect([snapshots.state.trouble, lines.length]).toEqual([undefined, 2]);
    await snapshots.close(60_000);
    await store.close();
  });

  // Promise(restarts): A clock set back between two processes grants nothing.
  test.each([
    { name: "a second", seconds: 1 },
    { name: "an hour", seconds: 3_600 },
    { name: "three days", seconds: 259_200 },
  ])("grant nothing when the clock is set back by $name while no process runs", async ({ seconds }) => {
    const file = newFile();
    clock.advanceSeconds(1_000_000);
    const limits = Object.values(Algorithm).map((algorithm) =>
      makeLimit({ algorithm, amount: 3, windowSeconds: 86_400, name: `${algorithm}` }),
    );
    const first = open(file);
    await first.snapshots.open();
    for (const of of limits) for (let i = 0; i < 3; i++) expect(take(first.store, "a", of)).toBe(true);
    await first.snapshots.close(60_000);
    clock.advanceSeconds(-seconds);
    const second = open(file);
    await second.snapshots.open();
    expect(second.lines).toEqual([expect.stringContaining("which has stepped back")]);
    expect(limits.map((of) => take(second.store, "a", of))).toEqual(limits.map(() => false));
    await second.snapshots.close(60_000);
    await Promise.all([first.store.close(), second.store.close()]);
  });

  test("leave out what has ended by the clock, wherever it was set to meanwhile", async () => {
    const file = newFile();
    const first = open(file);
    await first.snapshots.open();
    take(first.store, "a");
    await first.snapshots.close(60_000);
    clock.advanceSeconds(90_000);
    const second = open(file);
    await second.snapshots.open();
    expect([second.store.bucketCount, second.lines]).toEqual([0, [expect.stringContaining('"ended":1')]]);
    await second.snapshots.close(60_000);
    await Promise.all([first.store.close(), second.store.close()]);
  });

  test("are read from a folder that can't be locked, and written once it can", async () => {
    const file = newFile();
    const first = open(file);
    await first.snapshots.open();
    take(first.store, "a");
    await first.snapshots.close(60_000);
    // No lock, but nobody's either.
    mkdirSync(`${file}.lock`);
    const second = open(file);
    await second.snapshots.open();
    await second.snapshots.write();
    expect([second.store.bucketCount, second.snapshots.state]).toMatchObject([
      1,
      { written: 0, failed: 2, trouble: expect.stringContaining("expected a lock at ") },
    ]);
    rmSync(`${file}.lock`, { recursive: true });
    await second.snapshots.write();
    const { written, trouble } = second.snapshots.state;
    expect([written, trouble]).toEqual([1, undefined]);
    await second.snapshots.close(60_000);
    await Promise.all([first.store.close(), second.store.close()]);
  });

  test("say that the disk is too slow when one is not written by the time of the next", async () => {
    const file = newFile();
    const { store, snapshots, lines } = open(file, undefined, 1);
    for (let i = 0; i < 50_000; i++) take(store, `${i}`);
    await snapshots.open();
    await expect.poll(() => snapshots.state.failed, { interval: 5 }).toBeGreaterThan(0);
    expect(lines[0]).toContain("the disk is slow or hangs");
    await snapshots.close(60_000);
    expect(snapshots.state.trouble).toBeUndefined();
    await store.close();
  });

  test("end with the process when the last one takes too long, and leave the one before", async () => {
    const file = newFile();
    const { store, snapshots } = open(file);
    await snapshots.open();
    take(store, "first");
    await snapshots.write();
    for (let i = 0; i < 50_000; i++) take(store, `${i}`);
    await snapshots.close(0);
    expect(snapshots.state).toMatchObject({ written: 1, trouble: expect.stringContaining("within 0 ms") });
    await snapshots.abandon();
    expect(readdirSync(join(file, ".."))).toEqual(["buckets"]);
    const next = open(file);
    await next.snapshots.open();
    expect(next.store.bucketCount).toBe(1);
    await next.snapshots.abandon();
    await Promise.all([store.close(), next.store.close()]);
  });

  test("never move a folder that bears the file's name", async () => {
    const file = newFile();
    mkdirSync(file);
    const { snapshots, store } = open(file);
    await snapshots.open();
    await snapshots.close(60_000);
    expect(snapshots.state).toMatchObject({
      written: 0,
      trouble: "expected a file, got a folder or a device of that name",
    });
    expect(readdirSync(join(file, ".."))).toEqual(["buckets"]);
    await store.close();
  });

  // All in one turn would take half a second.
  // Promise(restarts): Writing or reading a snapshot holds the event loop for at most 10 ms at a time.
  test("hold no turn for more than 10 ms: a hundred thousand buckets, the longest logs, a bucket full of holds", async () => {
    const file = newFile();
    const { store, snapshots } = open(file);
    await snapshots.open();
    for (let entry = 0; entry < 250; entry++) {
      clock.advanceSeconds(entry < 128 ? 1 : 700);
      for (let i = 0; i < 500; i++) take(store, `${i}`, log);
    }
    for (let i = 0; i < 100_000; i++) take(store, `${i}`);
    for (let i = 0; i < HOLDS_PER_BUCKET_MAX; i++) take(store, "held", held, String(i).padEnd(64, "x"));
    const ms = await quickestTurn(() => snapshots.write());
    expect(ms).toBeLessThan(onThisMachine(TURN_MS_MAX, ms));
    await snapshots.close(60_000);
    const read = async () => {
      const next = open(file);
      await next.snapshots.open();
      expect(next.store.bucketCount).toBe(store.bucketCount);
      expect(next.store.holds.liveCount).toBe(HOLDS_PER_BUCKET_MAX);
      await next.snapshots.abandon();
      await next.store.close();
    };
    const readMs = await quickestTurn(read);
    expect(readMs).toBeLessThan(onThisMachine(TURN_MS_MAX, readMs));
    await store.close();
  });
});

/** The longest turn of the event loop while `work` runs; the least of several tries, up to one within the bound. */
async function quickestTurn(work: () => Promise<void>): Promise<number> {
  let leastMs = Number.POSITIVE_INFINITY;
  for (let tries = 0; tries < 20 && leastMs >= TURN_MS_MAX; tries++) {
    const watch = new TurnWatch();
    await work();
    leastMs = Math.min(leastMs, watch.stop());
  }
  return leastMs;
}
