// Policies that are edited, deleted and made again while requests come: nobody gets an error, no request is judged by half of one
// set and half of another, and the new one soon counts. The gateway is told to fail closed, so a call that fails is a 500.

import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { type Answer, Caller, headerOf, Load } from "../envoy/support/caller.ts";
import { LateWatch } from "../support/turn-watch.ts";
import { Bed } from "./support/bed.ts";
import { hasGateway } from "./support/require-gateway.ts";
import { gateway, limits, type Resource, route } from "./support/resources.ts";

/**
 * How soon an edit is in force: from when the gateway has read its files to the answer that a caller gets. Reading them takes it
 * a second and more of a busy machine; in a cluster it reads none.
 */
const IN_FORCE_MS_MAX = 2_000;
/** The gateway, its Envoy and Headgate have a part in that, one after another. */
const PROGRAMS = 3;
const EDITS = 4;
const ROUNDS = 2;
const CALLERS = 2;

/** Two rules of one number, which every request meets: both limits of an answer are of one set. */
const twice = (requests: number): readonly Resource[] => [
  limits("edited", [
    { clientSelectors: [{ headers: [{ name: "x-user-id", type: "Distinct" }] }], limit: { requests, unit: "Hour" } },
    { limit: { requests, unit: "Hour" } },
  ]),
];
const deletable = (requests: number): readonly Resource[] => [
  limits("deleted", [{ limit: { requests, unit: "Hour" } }]),
];
const COUNT = 100_000;

describe.runIf(hasGateway)("a policy under load", () => {
  let bed: Bed;
  let caller: Caller;
  beforeAll(async () => {
    bed = await Bed.start(1, (ports) => ({
      gateway: gateway(ports),
      routes: [
        route("edited"),
        route("deleted"),
        route("steady"),
        limits("steady", [{ limit: { requests: 2, unit: "Hour" } }]),
      ],
      edited: twice(COUNT),
      deleted: deletable(1),
    }));
    caller = new Caller(bed.ports[0] ?? 0);
  });

  const send = (name: string): Promise<Answer> => caller.get("/", { host: `${name}.test`, "x-user-id": "ann" });

  /** Milliseconds from the edit until an answer is as wanted, without what the machine kept this process from running. */
  async function untilInForce(edit: () => void, isSo: (answer: Answer) => boolean, name: string): Promise<number> {
    edit();
    const startMs = performance.now();
    const late = new LateWatch();
    while (!isSo(await send(name))) {
      if (performance.now() - startMs > 60_000) throw new Error("the edit is not in force after a minute");
      await sleep(5);
    }
    return Date.now() - bed.lastReadMs() - PROGRAMS * late.stop();
  }

  // Promise(gateway): An edited policy is in force as a whole within two seconds, and nobody gets an error.
  test("that is edited changes whole, in force within two seconds, and nobody sees an error", async () => {
    const seen = new Set<string>();
    const whole = (requests: number) => `${requests}, ${requests};w=3600, ${requests};w=3600`;
    const load = new Load(CALLERS, async () => {
      const answer = await send("edited");
      seen.add(headerOf(answer, "x-ratelimit-limit") ?? "none");
      return answer;
    });
    const times: number[] = [];
    for (let edit = 1; edit <= EDITS; edit++) {
      const requests = COUNT + edit;
      const isNew = (answer: Answer) => headerOf(answer, "x-ratelimit-limit")?.startsWith(`${requests},`) ?? false;
      times.push(await untilInForce(() => bed.write("edited", twice(requests)), isNew, "edited"));
      await expect.poll(() => seen.has(whole(requests)), { message: `the load has met ${requests}` }).toBe(true);
    }
    await load.stop();
    expect([...load.statuses.keys()]).toEqual([200]);
    expect([...seen].toSorted()).toEqual(Array.from({ length: EDITS + 1 }, (_, edit) => whole(COUNT + edit)));
    expect(Math.max(...times), times.join(", ")).toBeLessThan(IN_FORCE_MS_MAX);
    expect(load.total).toBeGreaterThan(EDITS);
  });

  // Promise(gateway): A deleted policy limits nobody.
  test("that is deleted limits nobody, and made again limits as before, within two seconds each", async () => {
    expect([(await send("deleted")).status, (await send("deleted")).status]).toEqual([200, 429]);
    const load = new Load(CALLERS, () => send("deleted"));
    const times: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      times.push(
        await untilInForce(
          () => bed.write("deleted", []),
          ({ status }) => status === 200,
          "deleted",
        ),
      );
      times.push(
        await untilInForce(
          () => bed.write("deleted", deletable(1)),
          ({ status }) => status === 429,
          "deleted",
        ),
      );
    }
    await load.stop();
    expect([...load.statuses.keys()].toSorted()).toEqual([200, 429]);
    expect(Math.max(...times), times.join(", ")).toBeLessThan(IN_FORCE_MS_MAX);
  });

  test("leaves the counts of others as they are", async () => {
    expect((await send("steady")).status).toBe(200);
    bed.write("edited", twice(7));
    const isNew = (answer: Answer) => headerOf(answer, "x-ratelimit-limit")?.startsWith("7,") ?? false;
    await untilInForce(() => undefined, isNew, "edited");
    expect([(await send("steady")).status, (await send("steady")).status]).toEqual([200, 429]);
  });
});
