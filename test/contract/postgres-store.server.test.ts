// The contract of stores, held by the PostgreSQL store on a real server; test/property/sql-agrees.server.test.ts compares its algorithms.

import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { AMOUNT_MAX } from "../../src/base/units.ts";
import { WAIT_US_MAX } from "../../src/engine/domain/limit.ts";
import { Mode } from "../../src/engine/domain/take.ts";
import { SQL_FILES } from "../../src/stores/postgres/schema.ts";
import { limitOf } from "../property/histories.ts";
import { bucketNumbers } from "../property/rates.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { runs } from "../support/runs.ts";
import { describeComparedContract } from "./every.contract.ts";
import { postgresHarness } from "./postgres-harness.ts";
import { askOne, START_US } from "./store-harness.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
}, 60_000);

describeComparedContract("PostgreSQL store", () => postgresHarness(server));

test("the table of SQL files is the folder sql/", () => {
  expect([...SQL_FILES].sort()).toEqual(readdirSync(resolve(import.meta.dirname, "../../sql")));
});

// Promise(limits): A lowered rate keeps what was spent, on every store.
test("a bucket is kept as long as the rate needs that it was last asked about, refused or only looked at", async () => {
  const harness = await postgresHarness(server);
  const costs = fc.integer({ min: 1, max: AMOUNT_MAX });
  let identities = 0;
  await fc.assert(
    fc.asyncProperty(bucketNumbers(), bucketNumbers(), costs, fc.boolean(), async (written, edited, cost, peeks) => {
      const identity = `i${identities++}`;
      harness.setUs(START_US);
      await askOne(harness, { limit: limitOf(written), mode: Mode.postPaid, cost, identity });
      harness.setUs(START_US + 1);
      const asked = { limit: limitOf(edited), mode: peeks ? Mode.peek : Mode.pay, cost: edited.burst + 1, identity };
      const { resetUs } = await askOne(harness, asked);
      fc.pre(resetUs > 1 && resetUs < WAIT_US_MAX);
      harness.setUs(START_US + resetUs);
      await server.query("SELECT headgate.sweep($1, 1000)", [String(harness.nowUs())]);
      const later = await askOne(harness, { limit: limitOf(edited), mode: Mode.peek, identity });
      expect(later.resetUs).toBe(1);
    }),
    { numRuns: runs(100) },
  );
});
