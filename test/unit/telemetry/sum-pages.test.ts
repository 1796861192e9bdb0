// What the metrics of several processes are together.

import { collectDefaultMetrics, Registry } from "prom-client";
import { expect, test } from "vitest";
import { METRICS, WORKER_METRICS } from "../../../src/operate/telemetry/metrics.ts";
import { PROCESS_GAUGES } from "../../../src/operate/telemetry/process-gauges.ts";
import {
  addCounts,
  type Counts,
  keepHigherCounts,
  PageSum,
  readCounts,
} from "../../../src/operate/telemetry/sum-pages.ts";
import { SupervisorPage } from "../../../src/operate/telemetry/supervisor-page.ts";

async function sumOf(pages: readonly string[], ended: Counts = new Map()): Promise<string> {
  const sum = new PageSum();
  for (const page of pages) await sum.add(page);
  sum.addCounts(ended);
  let text = "";
  for await (const piece of sum.text()) text += piece;
  return text;
}

const page = (name: string, kind: string, ...samples: string[]) =>
  `# HELP ${name} What it is.\n# TYPE ${name} ${kind}\n${samples.map((sample) => `${name}${sample}\n`).join("")}`;

test.each([
  { name: "counters are added up", kind: "counter", metric: "a_total", values: [3, 4], together: 7 },
  { name: "gauges are added up", kind: "gauge", metric: METRICS.inFlight.name, values: [3, 4], together: 7 },
  { name: "readiness is the worst", kind: "gauge", metric: METRICS.ready.name, values: [1, 0], together: 0 },
  { name: "a failed load shows", kind: "gauge", metric: METRICS.rulesLastLoadOk.name, values: [0, 1], together: 0 },
  { name: "the number of limits stays", kind: "gauge", metric: METRICS.rulesLimits.name, values: [5, 5], together: 5 },
  { name: "the first start counts", kind: "gauge", metric: "process_start_time_seconds", values: [9, 8], together: 8 },
  {
    name: "of lags the longest",
    kind: "gauge",
    metric: "nodejs_eventloop_lag_p99_seconds",
    values: [1, 2],
    together: 2,
  },
  { name: "what is no number hides nothing", kind: "gauge", metric: "a", values: ["NaN", 2, "NaN"], together: 2 },
  { name: "infinity is kept", kind: "gauge", metric: "a", values: ["+Inf", 2], together: "+Inf" },
])("$name", async ({ kind, metric, values, together }) => {
  expect(await sumOf(values.map((value) => page(metric, kind, ` ${value}`)))).toBe(
    `${page(metric, kind, ` ${together}`)}\n`,
  );
});

test("series are told apart by all their labels, and kept if only one process has them", async () => {
  const one = page("a_total", "counter", '{x="1 2",y="} 3"} 4', '{x="2"} 1');
  const other = page("a_total", "counter", '{x="1 2",y="} 3"} 5', '{x="3"} 1');
  expect(await sumOf([one, other])).toBe(
    `${page("a_total", "counter", '{x="1 2",y="} 3"} 9', '{x="2"} 1', '{x="3"} 1')}\n`,
  );
});

test("histograms are added up, bucket by bucket", async () => {
  const one = '# TYPE h histogram\nh_bucket{le="1"} 2\nh_bucket{le="+Inf"} 3\nh_sum 4.5\nh_count 3\n';
  expect(await sumOf([one, one])).toBe(
    '# TYPE h histogram\nh_bucket{le="1"} 4\nh_bucket{le="+Inf"} 6\nh_sum 9\nh_count 6\n\n',
  );
});

test("counters of a process that ended stay in the sum, its gauges do not, and metrics that nobody knows are left out", async () => {
  const sum = new PageSum();
  await sum.add(page("a_total", "counter", '{rule="both"} 10', '{rule="mine"} 10') + page("g", "gauge", " 5"));
  const ended = sum.counts();
  readCounts("# TYPE unheard_total counter\nunheard_total 3\n", ended);
  const living = page("a_total", "counter", '{rule="both"} 1') + page("g", "gauge", " 2");
  expect(await sumOf([living], ended)).toBe(
    `${page("a_total", "counter", '{rule="both"} 11', '{rule="mine"} 10')}\n${page("g", "gauge", " 2")}\n`,
  );
});

test("what no living process has is forgotten of the metrics that are named", async () => {
  const ended: Counts = new Map();
  readCounts(page("a_total", "counter", '{x="1"} 1', '{x="2"} 1') + page("b_total", "counter", '{x="2"} 1'), ended);
  const living = new PageSum();
  await living.add(page("a_total", "counter", '{x="1"} 5'));
  living.forgetUnknown(ended, ["a_total", "c_total"]);
  expect(ended).toEqual(
    new Map([
      ["a_total", new Map([['a_total{x="1"}', 1]])],
      ["b_total", new Map([['b_total{x="2"}', 1]])],
    ]),
  );
});

test("counts are read, the last word of a series counts, and joined by the greater or by adding", () => {
  const of = (...samples: string[]) => {
    const counts: Counts = new Map();
    for (const sample of samples) readCounts(page("a_total", "counter", sample), counts);
    return counts;
  };
  expect(of(" 3", " 4")).toEqual(of(" 4"));
  const raised = of('{x="1"} 3', '{x="2"} 9');
  keepHigherCounts(raised, of('{x="1"} 5', '{x="2"} 1', '{x="3"} 1'));
  expect(raised).toEqual(of('{x="1"} 5', '{x="2"} 9', '{x="3"} 1'));
  const added = of('{x="1"} 3');
  addCounts(added, of('{x="1"} 5', '{x="3"} 1'));
  expect(added).toEqual(of('{x="1"} 8', '{x="3"} 1'));
});

test("every gauge of Node.js and of the process has its way of becoming one", async () => {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const metrics = await registry.getMetricsAsJSON();
  const gauges = metrics.filter(({ type }) => String(type) === "gauge").map(({ name }) => name);
  expect(gauges.length).toBeGreaterThan(20);
  expect(gauges.filter((name) => PROCESS_GAUGES[name] === undefined)).toEqual([]);
});

test("the supervisor's page has every metric of its table, by worker where it says so", async () => {
  const text = await new SupervisorPage().text({
    restarts: 1,
    moves: 2,
    workers: [{ number: 3, connections: 4, openStreams: 5, calls: 6 }],
  });
  for (const { name, help, kind } of Object.values(WORKER_METRICS))
    expect(text).toContain(`# HELP ${name} ${help}\n# TYPE ${name} ${kind}\n`);
  expect(text).toContain('headgate_worker_connections{worker="3"} 4\n');
  expect(text).toContain('headgate_worker_calls_total{worker="3"} 6\n');
  expect(await sumOf([text])).toContain("headgate_worker_moves_total 2\n");
});
