// What a settlement reads and writes. What it answers is in the contract suites and in the properties of groups.

import { describe, expect, test } from "vitest";
import { Settlement } from "../../../../src/engine/algorithms/settlement.ts";
import type { BucketAccess, WorkingBucket } from "../../../../src/engine/algorithms/working-bucket.ts";
import { Algorithm, type Limit } from "../../../../src/engine/domain/limit.ts";
import { Kind, Mode, TakeGroup, Verdict } from "../../../../src/engine/domain/take.ts";
import { type Ask, fillGroup, takeOf } from "../../../contract/store-harness.ts";
import { makeLimit } from "../../../support/builders.ts";

const NOW_US = 1_767_225_600_000_000;
const YEAR_US = 31_536_000 * 1_000_000;

/** Writes down what it is asked for; keeps nothing but what it is given. */
class RecordingAccess implements BucketAccess {
  readonly hasRoomForPayment = () => true;
  readonly calls: string[] = [];
  readonly expiries: number[] = [];
  readonly extensions: number[] = [];
  kept: { atUs: number; used: number; previous: number } | undefined = undefined;

  load(bucket: WorkingBucket): boolean {
    this.calls.push(`load ${nameOf(bucket)}`);
    if (this.kept !== undefined) Object.assign(bucket.state, this.kept);
    return this.kept !== undefined;
  }

  save(bucket: WorkingBucket, expiresAtUs: number): void {
    this.calls.push(`save ${nameOf(bucket)}`);
    this.expiries.push(expiresAtUs - NOW_US);
    this.kept = { ...bucket.state };
  }

  extend(_bucket: WorkingBucket, expiresAtUs: number): void {
    this.extensions.push(expiresAtUs - NOW_US);
  }

  remove(bucket: WorkingBucket): void {
    this.calls.push(`remove ${nameOf(bucket)}`);
  }
}

function nameOf(bucket: WorkingBucket): string {
  return /id=(\w+)/.exec(bucket.bucketKey)?.[1] ?? bucket.bucketKey;
}

function settle(access: BucketAccess, asks: readonly Ask[]): TakeGroup {
  const group = new TakeGroup();
  fillGroup(group, asks, "", false);
  new Settlement(access).settle(group, NOW_US);
  return group;
}

const bucket = makeLimit({ windowSeconds: 60 });
const full = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 0, name: "full" });

describe("joint settlement", () => {
  test("reads each bucket once and writes each changed one once", () => {
    const access = new RecordingAccess();
    settle(access, [{ limit: bucket }, { limit: bucket, identity: "b", mode: Mode.peek }, { limit: bucket }]);
    expect(access.calls).toEqual(["load a", "load b", "save a"]);
  });

  test.each<{ name: string; asks: readonly Ask[] }>([
    { name: "a refusal", asks: [{ limit: bucket }, { limit: full, identity: "full" }] },
    { name: "a peek", asks: [{ limit: bucket, mode: Mode.peek }] },
    { name: "a descriptor that is over", asks: [{ limit: bucket, cost: 11, kind: Kind.shadow }] },
    { name: "a refund of what was never used", asks: [{ limit: bucket, mode: Mode.refund }] },
  ])("$name writes nothing", ({ asks }) => {
    const access = new RecordingAccess();
    settle(access, asks);
    expect(access.calls.filter((call) => !call.startsWith("load"))).toEqual([]);
  });

  test("a bucket dated far ahead is kept as dated now, even by a refusal", () => {
    const access = new RecordingAccess();
    access.kept = { atUs: NOW_US + 3_600_000_000, used: 10_000_000, previous: 0 };
    expect(settle(access, [{ limit: bucket }]).verdict).toBe(Verdict.refused);
    expect(access.kept).toMatchObject({ atUs: NOW_US, used: 10_000_000, previous: 0 });
  });

  test.each<{ name: string; limit: Limit; cost: number; lifetimeUs: number }>([
    { name: "until the debt is worked off", limit: bucket, cost: 3, lifetimeUs: 18_000_000 },
    { name: "at least a millisecond", limit: makeLimit({ amount: 4e9, burst: 4e9 }), cost: 1, lifetimeUs: 1_000 },
    {
      name: "ten years at most",
      limit: makeLimit({ amount: 1, burst: 100, windowSeconds: 31_536_000 }),
      cost: 100,
      lifetimeUs: 10 * YEAR_US,
    },
  ])("a bucket is kept $name", ({ limit, cost, lifetimeUs }) => {
    const access = new RecordingAccess();
    settle(access, [{ limit, cost }]);
    expect(access.expiries).toEqual([lifetimeUs]);
  });

  test("a bucket shared by two limits is kept for the one that needs it longer", () => {
    const access = new RecordingAccess();
    settle(access, [{ limit: bucket }, { limit: makeLimit({ amount: 1_000, windowSeconds: 60 }) }]);
    expect(access.expiries).toEqual([12_000_000]);
  });

  test("a group settled again is answered again", () => {
    const settlement = new Settlement(new RecordingAccess());
    const group = new TakeGroup();
    fillGroup(group, [{ limit: bucket, cost: 6 }], "", false);
    settlement.settle(group, NOW_US);
    expect(takeOf(group, 0)).toMatchObject({ paid: true, remaining: 4 });
    settlement.settle(group, NOW_US);
    expect(takeOf(group, 0)).toMatchObject({ paid: false, paidAtUs: 0, remaining: 4 });
  });
});
