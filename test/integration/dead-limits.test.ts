// A deployment with limits that match no call: the running service names each with its cause.

import { expect, test } from "vitest";
import { FrameType } from "../../packages/fast-lane/src/protocol.ts";
import { SHOULD_RATE_LIMIT_PATH } from "../../src/grpc/transport/load-proto.ts";
import { requestAbout } from "../support/callers.ts";
import { frameOf, peerOf, wordOf } from "../support/http2-peer.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { startTestApp } from "../support/test-app.ts";

const LIMIT = "rate_limit: { requests_per_unit: 1000000, unit: second }";

const RULES = `domain: edge
descriptors:
  - { key: remote_address, ${LIMIT} }
  - { key: tenant, ${LIMIT} }
  - key: plan
    value: enterprise
    descriptors:
      - { key: api_key, ${LIMIT} }
  - key: path
    descriptors:
      - { key: method, ${LIMIT} }
  - { key: reset_password, rarely: true, ${LIMIT} }
`;

/** What Envoy sends: names and values that are not quite those of the rules. */
const DESCRIPTORS = [
  { remote_address: "203.0.113.7" },
  { tenant_id: "acme" },
  { plan: "Enterprise", api_key: "k" },
  { method: "GET", path: "/" },
].map((entries) => ({ entries: Object.entries(entries).map(([key, value]) => ({ key, value })) }));

const DEAD = [
  /^edge\/tenant \(rules\.yaml:4:5\): matched none of [\d,]+ calls since .*; calls came with 'tenant_id', but the rule wants 'tenant'$/,
  /^edge\/plan=enterprise\/api_key \(.*'plan', 'api_key', but none with 'plan=enterprise'; one had 'plan=Enterprise'$/,
  /^edge\/path\/method \(.*; calls came with 'method', 'path', but the rule wants 'path', 'method'$/,
];

test("three dead limits of a deployment are named with their causes, and counted in the metrics", async () => {
  const clock = new ManualClock();
  const app = await startTestApp(RULES, {}, clock);
  const state = async () => JSON.parse(await (await app.http("/state")).text());
  await state();
  // An example of what met no rule is taken once a second, by real time.
  const descriptorOf = (i: number) =>
    [DESCRIPTORS[0], DESCRIPTORS[i % DESCRIPTORS.length]].filter((one) => one !== undefined);
  const examples = async () => (await state()).unmatched as unknown[];
  for (let i = 1; i < DESCRIPTORS.length; i++) {
    await app.ask({ domain: "edge", descriptors: descriptorOf(i) });
    await expect.poll(() => app.log.filter((line) => line.includes("met no rule")).length, { timeout: 5_000 }).toBe(i);
    clock.advanceSeconds(3_600);
  }
  expect(await examples()).toEqual([{ domain: "edge", descriptors: 3 }]);
  const peer = peerOf(app.grpcPort);
  peer.greet();
  peer.send(frameOf(FrameType.windowUpdate, 0, 0, wordOf(1_000_000_000)));
  const call = (id: number) => peer.call(id, SHOULD_RATE_LIMIT_PATH, requestAbout("remote_address", "203.0.113.7"));
  for (let first = 1; first < 20_000; first += 200) {
    peer.send(...Array.from({ length: 100 }, (_, i) => call(first + 2 * i)));
    await peer.outcome(first + 198);
  }
  clock.advanceSeconds(3_600);
  await state();
  await expect.poll(async () => (await state()).conditions.length, { timeout: 5_000 }).toBeGreaterThan(0);
  const { conditions } = await state();
  const { rows } = JSON.parse(await (await app.http("/rules?all")).text());
  const dead = conditions.find(({ id }: { id: string }) => id === "dead limits edge");
  expect(dead).toMatchObject({ severity: "warning", says: "3 rules of edge with limits match no call." });
  expect(dead.details).toEqual(DEAD.map((line) => expect.stringMatching(line)));
  expect(rows[0]).toMatchObject({ id: "edge/remote_address", matched_at: "2026-01-01T04:00:00.000Z" });
  expect(await (await app.http("/metrics")).text()).toMatch(/^headgate_dead_limits 3$/m);
});
