// The number of hash tags that stands in the cluster: who writes it, who is put to use, and what a flush changes.

import { beforeEach, describe, expect, test } from "vitest";
import type { RedisConnection } from "../../../../src/stores/redis/connect.ts";
import { TagCount } from "../../../../src/stores/redis/tag-count.ts";

const KEY = "rl:headgate:cluster-tags";

let stored: string | undefined;
let error: Error | undefined;
let isConnected = true;
/** As a server without room: it refuses any SET. */
let isFull = false;
beforeEach(() => {
  isFull = false;
  stored = undefined;
  error = undefined;
  isConnected = true;
});

// SET key value NX and GET key, as Redis answers them.
const connection = {
  command: async (name: string, [key, value, condition]: readonly string[]) => {
    if (error !== undefined) throw error;
    expect(key).toBe(KEY);
    if (name === "get") return stored === undefined ? null : Buffer.from(stored);
    expect([name, condition]).toEqual(["set", "NX"]);
    if (isFull) throw new Error("OOM command not allowed when used memory > 'maxmemory'.");
    if (stored !== undefined) return null;
    stored = value;
    return Buffer.from("OK");
  },
} as unknown as RedisConnection;

function tagCount(count: number): TagCount {
  const node = () => ({ connection: isConnected ? connection : undefined, describe: () => "Redis is not allowed to" });
  return new TagCount(count, KEY, node);
}

test("the first process writes it, the next with the same number serves, one with another gets an error with both", async () => {
  const [first, same, other] = [tagCount(64), tagCount(64), tagCount(16)];
  expect([first.wasAgreed, first.trouble]).toEqual([false, expect.stringContaining("was not asked yet")]);
  for (const made of [first, same, other]) await made.check();
  expect(stored).toBe("64");
  expect([first, same].map(({ wasAgreed, trouble }) => [wasAgreed, trouble])).toEqual([
    [true, undefined],
    [true, undefined],
  ]);
  expect(other.wasAgreed).toBe(false);
  expect(other.trouble).toMatch(/^REDIS_CLUSTER_TAGS is 16 here, but 64 for the processes .*rl:headgate:cluster-tags/);
});

describe("a process in use", () => {
  // Promise(redis): The number of tags is written again after a flush.
  test("writes what was flushed again, and says nothing", async () => {
    const made = tagCount(64);
    await made.check();
    stored = undefined;
    await made.check();
    expect([stored, made.trouble]).toEqual(["64", undefined]);
  });

  test("keeps serving if another one was quicker after the flush, and says so until that is fixed", async () => {
    const made = tagCount(64);
    await made.check();
    stored = "8";
    await made.check();
    expect([made.wasAgreed, made.trouble?.includes("8")]).toEqual([true, true]);
    stored = undefined;
    await made.check();
    expect([made.wasAgreed, made.trouble]).toEqual([true, undefined]);
  });

  test("takes no refusal and no lost connection for another number", async () => {
    const made = tagCount(64);
    await made.check();
    error = new Error("MOVED 1 127.0.0.1:1");
    await made.check();
    isConnected = false;
    await made.check();
    expect([made.wasAgreed, made.trouble]).toEqual([true, undefined]);
  });
});

test("a server that refuses writes still tells the number, and only the first process has to wait", async () => {
  isFull = true;
  const first = tagCount(64);
  await first.check();
  expect([first.wasAgreed, first.trouble]).toEqual([false, "Redis is not allowed to"]);
  stored = "64";
  const [same, other] = [tagCount(64), tagCount(16)];
  for (const made of [same, other]) await made.check();
  expect([same.wasAgreed, same.trouble]).toEqual([true, undefined]);
  expect([other.wasAgreed, other.trouble]).toEqual([false, expect.stringContaining("but 64 for")]);
});

test("one that may not ask is not put to use, and says why", async () => {
  const made = tagCount(64);
  error = new Error("NOPERM");
  await made.check();
  expect([made.wasAgreed, made.trouble]).toEqual([false, "Redis is not allowed to"]);
});
