// A reservation is settled once, at what was said first, whichever way its block ends, and its end never throws.

import { expect, test } from "vitest";
import { type Reservation, reservationOf, type Settlement } from "../src/reservation.ts";

const ANSWER = { allowed: true, reserved: 50, remaining: 50 };
const TAKEN: Settlement = { found: "settled", remaining: 90 };

/** A reservation, what was sent for it, and how each sending ends. */
function reserved(...ends: (Settlement | Error)[]): { held: Reservation; sent: number[] } {
  const sent: number[] = [];
  const held = reservationOf("r1", ANSWER, async (used) => {
    sent.push(used);
    const end = ends[sent.length - 1] ?? TAKEN;
    if (end instanceof Error) throw end;
    return end;
  });
  return { held, sent };
}

test("tells what was answered", () => {
  expect(JSON.parse(JSON.stringify(reserved().held))).toEqual({ id: "r1", ...ANSWER });
});

// Promise(clients): A reservation settles once, with the first value; the end of its block never throws.
test.each([
  { name: "settled, settled again and cancelled", steps: ["settle 7", "settle 9", "cancel"], sent: [7] },
  { name: "cancelled and settled", steps: ["cancel", "settle 9"], sent: [0] },
  { name: "left to the end of its block", steps: [], sent: [0] },
  { name: "settled at 0", steps: ["settle 0", "settle 9"], sent: [0] },
])("is settled once: $name", async ({ steps, sent: expected }) => {
  const { held, sent } = reserved();
  const found: string[] = [];
  {
    await using inBlock = held;
    for (const step of steps) {
      const [word, used] = step.split(" ");
      const settlement = word === "cancel" ? inBlock.cancel() : inBlock.settle(Number(used));
      found.push((await settlement).found);
    }
  }
  await held.cancel();
  expect([sent, found]).toEqual([expected, steps.map(() => "settled")]);
});

test("settlements that come while one is under way wait for it", async () => {
  const { held, sent } = reserved();
  expect(await Promise.all([held.settle(3), held.settle(4), held.cancel()])).toEqual([TAKEN, TAKEN, TAKEN]);
  expect(sent).toEqual([3]);
});

test.each([
  { name: "got no answer", end: { found: "unanswered" } as const },
  { name: "was rejected", end: new Error("away") },
])("what $name is sent again at what was said first, also at the end of the block", async ({ end }) => {
  const { held, sent } = reserved(end, end);
  {
    await using inBlock = held;
    await inBlock.settle(7).catch(() => undefined);
    await inBlock.settle(9).catch(() => undefined);
  }
  expect(await held.cancel()).toEqual(TAKEN);
  expect(sent).toEqual([7, 7, 7]);
});

// Promise(clients): A reservation settles once, with the first value; the end of its block never throws.
test("the end of a block throws nothing, whether it waits or not, and what the block throws gets out", async () => {
  const { held, sent } = reserved(new Error("away"), new Error("away"), new Error("away"));
  const run = async () => {
    await using _inBlock = held;
    throw new Error("of the block");
  };
  await expect(run()).rejects.toThrow("of the block");
  {
    using _inBlock = held;
  }
  await expect(held.cancel()).rejects.toThrow("away");
  expect(sent).toEqual([0, 0]);
});

test.each([-1, 0.5, Number.NaN, 2 ** 53, "7", undefined, 7n])(
  "%s is no number to settle at, and settles nothing",
  async (used) => {
    const { held, sent } = reserved();
    await expect(held.settle(used as number)).rejects.toThrow(
      /^used: expected a whole number from 0 to 9007199254740991, got /,
    );
    expect(sent).toEqual([]);
    await held.cancel();
    expect(sent).toEqual([0]);
  },
);
