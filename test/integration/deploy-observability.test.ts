// Alerts and dashboard of deploy/: their expressions parse, and name what Headgate really exports.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { RULE_METRICS } from "../../src/operate/telemetry/metrics.ts";
import { METRICS } from "../../src/process/app/metrics-table.ts";
import { FETCH_MS, pythonPackage, runPython } from "../support/deploy-tools.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const DEPLOY = join(ROOT, "deploy");
const read = (path: string) => readFileSync(join(DEPLOY, path), "utf8");

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string; readonly runbook_url: string };
}
/** One use of a metric in an expression: its name, and the labels that the expression asks it for. */
interface Use {
  readonly name: string;
  readonly labels: readonly string[];
}

/** As far as it says where the pages of the repository are, once it does. */
interface Manifest {
  readonly repository?: { readonly url: string };
}

const alerts = (parse(read("prometheus/alerts.yaml")) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  ({ rules }) => rules,
);
const dashboard = JSON.parse(read("grafana/headgate.json")) as { panels: Panel[]; templating: { list: Variable[] } };
interface Panel {
  readonly id: number;
  readonly title: string;
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}
interface Variable {
  readonly name: string;
  readonly query: string | { readonly query: string };
}

/** Grafana fills in its variables before Prometheus sees an expression. */
const filledIn = (expr: string) => expr.replaceAll("$__rate_interval", "1m").replaceAll("$domain", ".*");
const expressions: readonly (readonly [string, string])[] = [
  ...alerts.map(({ alert, expr }) => [`alert ${alert}`, expr] as const),
  ...dashboard.panels.flatMap(({ title, targets }) =>
    (targets ?? []).map(({ expr }) => [`panel ${title}`, filledIn(expr)] as const),
  ),
];

const PARSE = `
import json, sys
import promql_parser as p

def labels_of(modifier):
    return [] if modifier is None else list(modifier.labels)

def uses(node, asked):
    if isinstance(node, p.VectorSelector):
        own = [m.name for m in node.matchers.matchers]
        return [{"name": node.name, "labels": own + asked}]
    if isinstance(node, p.MatrixSelector):
        return uses(node.vector_selector, asked)
    if isinstance(node, p.AggregateExpr):
        return uses(node.expr, asked + labels_of(node.modifier))
    if isinstance(node, p.BinaryExpr):
        return uses(node.lhs, asked) + uses(node.rhs, asked)
    if isinstance(node, p.Call):
        return [use for arg in node.args for use in uses(arg, asked)]
    if isinstance(node, (p.ParenExpr, p.UnaryExpr)):
        return uses(node.expr, asked)
    if isinstance(node, (p.NumberLiteral, p.StringLiteral)):
        return []
    raise ValueError(f"unexpected {type(node)}")

found = {}
for name, text in json.load(sys.stdin):
    try:
        found.setdefault(name, []).extend(uses(p.parse(text), []))
    except ValueError as error:
        sys.exit(f"{name}: {error} in {text}")
print(json.dumps(found))
`;

let app: TestApp;
let uses: Record<string, Use[]>;
/** Names as Headgate exports them, histograms with their endings -> labels they carry. */
const exported = new Map<string, readonly string[]>();

beforeAll(async () => {
  for (const { name, kind, labels } of Object.values({ ...METRICS, ...RULE_METRICS })) {
    if (kind !== "histogram") exported.set(name, labels);
    else
      for (const [end, more] of [
        ["_bucket", ["le"]],
        ["_sum", []],
        ["_count", []],
      ] as const)
        exported.set(name + end, [...labels, ...more]);
  }
  uses = (await runPython(await pythonPackage("promql-parser"), PARSE, expressions)) as Record<string, Use[]>;
  app = await startTestApp("domain: edge\n");
}, FETCH_MS);

describe("alerts and dashboard", () => {
  test("use only metrics that Headgate or its Node.js exports", async () => {
    const page = await (await app.http("/metrics")).text();
    const ofTheProcess = [...page.matchAll(/^# TYPE ((?:process|nodejs)_\w+) /gm)].map((match) => match[1] ?? "");
    const unknown = Object.entries(uses).flatMap(([where, list]) =>
      list
        .filter(({ name }) => !exported.has(name) && !ofTheProcess.includes(name))
        .map(({ name }) => `${where}: ${name}`),
    );
    expect(unknown).toEqual([]);
    expect(Object.keys(uses).length).toBeGreaterThan(30);
  });

  test("between them show all that is known of certificates, and what peers of the gRPC port do wrong", () => {
    const used = new Set(Object.values(uses).flatMap((list) => list.map(({ name }) => name)));
    const { grpcTroubles, tlsRemaining, tlsLifetime, tlsLastChangeOk } = METRICS;
    const rows = [grpcTroubles, tlsRemaining, tlsLifetime, tlsLastChangeOk];
    expect(rows.map(({ name }) => name).filter((name) => !used.has(name))).toEqual([]);
  });

  test("show what becomes of holds, and warn of estimates and callers that are wrong", () => {
    const used = Object.values(uses).flatMap((list) => list.map(({ name }) => name));
    const { holdsOpened, holdsLive, holdsExpired, settlements, heldUnused, usedUnheld, settledLate } = RULE_METRICS;
    const rows = [holdsOpened, holdsLive, holdsExpired, settlements, heldUnused, usedUnheld, settledLate];
    expect(used).toEqual(expect.arrayContaining(rows.map(({ name }) => name)));
    const watched = (alert: string) => uses[`alert ${alert}`]?.map(({ name }) => name);
    expect(watched("HeadgateEstimatesTooLow")).toContain(usedUnheld.name);
    expect(watched("HeadgateHoldsNotSettled")).toEqual(expect.arrayContaining([settlements.name, holdsOpened.name]));
  });

  test("warn of a slow store by the share of STORE_DEADLINE that the alert names, whatever that is set to", () => {
    const alert = alerts.find(({ alert }) => alert === "HeadgateStoreSlow");
    const [, share] = / > (\S+) \* scalar\(min\(headgate_store_deadline_seconds\)\)$/.exec(alert?.expr ?? "") ?? [];
    expect(alert?.annotations.description).toContain(`more than ${100 * Number(share)} % of STORE_DEADLINE`);
  });

  test("ask metrics only for labels that they carry", () => {
    const givenByPrometheus = ["instance", "job"];
    const wrong = Object.entries(uses).flatMap(([where, list]) =>
      list.flatMap(({ name, labels }) =>
        labels
          .filter((label) => ![...(exported.get(name) ?? []), ...givenByPrometheus].includes(label))
          .map((label) => `${where}: ${name} has no label ${label}`),
      ),
    );
    expect(wrong).toEqual([]);
  });

  test("legends and variables name labels that are there", () => {
    for (const { title, targets } of dashboard.panels) {
      for (const { expr, legendFormat } of targets ?? []) {
        for (const [, label = ""] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
          expect(label === "instance" || expr.includes(label), `${title}: ${label}`).toBe(true);
        }
      }
    }
    const domain = dashboard.templating.list.find(({ name }) => name === "domain")?.query as { query: string };
    const [, metric = "", label = ""] = /^label_values\((\w+), (\w+)\)$/.exec(domain.query) ?? [];
    expect(exported.get(metric)).toContain(label);
  });

  test("panels have ids of their own", () => {
    const ids = dashboard.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  // Promise(operators): Degraded answers raise an alert whose metrics exist and which docs/operations.md explains.
  test("every alert says how urgent it is, and its runbook_url leads to where docs/operations.md says what to do", () => {
    const page = readFileSync(join(ROOT, "docs/operations.md"), "utf8");
    const section = page.split(/^## /m).find((text) => text.startsWith("Alerts\n")) ?? "";
    const explained = [
      ...section.matchAll(
        /^### (Headgate\w+)\n\n(Critical|Warning)\. .*\.\n\n- \*\*Callers\*\*: .*\n- \*\*First.*: /gm,
      ),
    ];
    expect(alerts.map(({ alert }) => alert).toSorted()).toEqual(explained.map(([, name]) => name).toSorted());
    const severities = new Map(explained.map(([, name, severity = ""]) => [name, severity.toLowerCase()]));
    expect([...severities.values()]).toEqual([...severities.values()].toSorted());
    const { repository } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as Manifest;
    const base = repository === undefined ? "" : `${repository.url.replace(/^git\+|\.git$/g, "")}/blob/main/`;
    for (const { alert, labels, annotations } of alerts) {
      expect(labels.severity, alert).toBe(severities.get(alert));
      expect(annotations, alert).toMatchObject({ summary: /\S/, description: /\.$/ } satisfies Record<string, RegExp>);
      expect(annotations.runbook_url).toBe(`${base}docs/operations.md#${alert.toLowerCase()}`);
    }
  });
});

test("the chart and the component for kustomize have the same alerts", () => {
  expect(read("helm/headgate/files/alerts.yaml")).toBe(read("prometheus/alerts.yaml"));
  const { spec } = parse(read("kubernetes/components/alerts/prometheus-rule.yaml")) as { readonly spec: unknown };
  expect(spec).toEqual(parse(read("prometheus/alerts.yaml")));
});
