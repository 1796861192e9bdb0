// What the mirror exports, and that docs/mirror.md lists it.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { LatencyHistogram } from "../../../../src/operate/telemetry/latency-histogram.ts";
import type { Differences } from "../../../../src/tools/mirror/differences.ts";
import { mirrorText } from "../../../../src/tools/mirror/metrics.ts";
import type { Mirror } from "../../../../src/tools/mirror/mirror.ts";

const answering = new LatencyHistogram();
answering.observe(900);
answering.observe(9_000_000);

const RULE = { domain: "edge", keys: 'a"b\n', answering_limit: "1/DAY", calls: 1 };
const mirror = {
  relayed: 7,
  notCompared: new Map([["busy", 1]]),
  recorder: { calls: 8, leftOut: 9 },
  answeringFailures: new Map([["unreachable", 3]]),
  comparisons: 5,
  heldBytes: 600,
  answeringLatency: answering,
  comparedLatency: new LatencyHistogram(),
} as unknown as Mirror;
const book = { same: 4, different: 2, fields: { limit: 2 }, rules: () => [RULE, RULE] } as unknown as Differences;
const text = mirrorText({ mirror, book });

describe("the mirror's metrics", () => {
  test.each([
    "headgate_mirror_calls_total 7",
    'headgate_mirror_compared_total{result="same"} 4',
    'headgate_mirror_compared_total{result="different"} 2',
    'headgate_mirror_not_compared_total{reason="busy"} 1',
    'headgate_mirror_not_answered_total{reason="unreachable"} 3',
    'headgate_mirror_differences_total{field="limit"} 2',
    'headgate_mirror_rule_differences_total{domain="edge",keys="a\\"b\\n",limit="1/DAY"} 2',
    "headgate_mirror_comparisons 5",
    "headgate_mirror_held_bytes 600",
    "headgate_mirror_recorded_total 8",
    "headgate_mirror_not_recorded_total 9",
    'headgate_mirror_target_seconds_bucket{target="answering",le="0.001"} 1',
    'headgate_mirror_target_seconds_bucket{target="answering",le="+Inf"} 2',
    'headgate_mirror_target_seconds_count{target="compared"} 0',
  ])("hold %s", (line) => {
    expect(text.split("\n")).toContain(line);
  });

  test("are those that docs/mirror.md lists, and no others", () => {
    const exported = [...text.matchAll(/^# TYPE (\w+)/gm)].map((match) => match[1]);
    const docs = readFileSync(new URL("../../../../docs/mirror.md", import.meta.url), "utf8");
    const listed = [...docs.matchAll(/`(headgate_mirror_\w+)`/g)].map((match) => match[1]);
    expect(listed.toSorted()).toEqual(exported.toSorted());
  });
});
