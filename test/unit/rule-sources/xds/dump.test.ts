// What a control plane sent, in a file: the commands that look at rules read it as the service would have.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runThrough } from "../../../../src/base/long-work.ts";
import { compileRules } from "../../../../src/engine/rules/compile.ts";
import { formatProblem } from "../../../../src/engine/rules/problems.ts";
import { digestOf, RATE_LIMIT_TYPE } from "../../../../src/rule-sources/xds/discovery.ts";
import { readDump } from "../../../../src/rule-sources/xds/dump.ts";
import { CacheFile } from "../../../../src/rule-sources/xds/rules-cache.ts";
import { resourceBytes } from "../../../support/resources.ts";
import { PlainStatsBook } from "../../../support/rules.ts";
import { runProgram } from "../../../support/run-program.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const folder = temporaryFolder("headgate-dump");
const ROUTE = "httproute/default/backend/rule/0/match/0/www";

const CHAIN = {
  key: ROUTE,
  value: ROUTE,
  descriptors: [{ key: "rule-0-match-0", rate_limit: { unit: "MINUTE", requests_per_unit: 3 } }],
};
const JSON_CHAIN = {
  key: ROUTE,
  value: ROUTE,
  descriptors: [{ key: "rule-0-match-0", rateLimit: { unit: "MINUTE", requestsPerUnit: 3 } }],
};

function limitsOf(text: string) {
  const files = readDump(text) ?? [];
  const { ruleSet, problems } = compileRules(files, { statsBook: new PlainStatsBook() });
  return {
    problems: problems.map(formatProblem),
    ids: [...(ruleSet?.domains.values() ?? [])].flatMap(({ limits }) => limits.map(({ names: { id } }) => id)),
  };
}

describe("a dump of resources", () => {
  const IDS = [`default/a/http/${ROUTE}/rule-0-match-0`, `default/b/http/${ROUTE}/rule-0-match-0`];
  const names = ["default/b/http", "default/a/http"];

  test("is what RULES_CACHE keeps", async () => {
    const path = join(folder, "kept");
    const resources = names.map((name) => ({
      typeUrl: RATE_LIMIT_TYPE,
      value: resourceBytes({ name, domain: name, descriptors: [CHAIN] }),
    }));
    const log: object[] = [];
    const cache = new CacheFile(path, { warn: (fields) => log.push(fields) });
    await cache.write({ version: "7", resources, digest: runThrough(digestOf(resources)) }, 1_700_000_000_000_000);
    expect(limitsOf(readFileSync(path, "utf8"))).toEqual({ problems: [], ids: IDS });
    expect((await cache.read())?.set.version).toBe("7");
    expect(log).toEqual([]);
    const text = readFileSync(path, "utf8");
    expect(() => readDump(text.slice(0, -9))).toThrow(/cut or changed/);
  });

  const configs = names.map((name) => ({ name, domain: name, descriptors: [JSON_CHAIN] }));
  test.each([
    { form: "a list", json: configs },
    {
      form: "an answer",
      json: { versionInfo: "1", resources: configs.map((config) => ({ "@type": RATE_LIMIT_TYPE, ...config })) },
    },
    {
      form: "a dump with names and versions",
      json: { resources: configs.map((resource) => ({ name: "x", version: "1", resource })) },
    },
  ])("may be the JSON of messages, as $form", ({ json }) => {
    expect(limitsOf(JSON.stringify(json))).toEqual({ problems: [], ids: IDS });
  });

  test("is distinguished from a rules file in JSON, and from anything else", () => {
    expect(readDump('{ "domain": "edge", "descriptors": [] }')).toBeUndefined();
    expect(readDump("domain: edge")).toBeUndefined();
    expect(readDump("[1, 2]")).toBeUndefined();
    expect(readDump("{ domain: edge }")).toBeUndefined();
  });

  // Promise(xds): Commands read what a control plane sent as the service does.
  test("is checked and explained by the commands; mistakes have their path", async () => {
    const path = join(folder, "dump.json");
    writeFileSync(path, JSON.stringify(configs));
    expect((await runProgram(["check", path])).out).toMatch(/ok: 2 domains, 4 rules, 2 limits in 2 files/);
    const asked = `--domain default/a/http ${ROUTE}=${ROUTE},rule-0-match-0=me`;
    const explained = await runProgram(`explain --rules ${path} ${asked}`);
    expect(explained.out).toContain("resource default/a/http: descriptors[0].descriptors[0]");
    writeFileSync(
      path,
      JSON.stringify([{ name: "r", domain: "d", descriptors: [{ key: "k", rateLimit: { unit: "UNKNOWN" } }] }]),
    );
    const bad = await runProgram(["check", path]);
    expect(bad.out).toContain("resource r: descriptors[0].rate_limit.unit: error: unit: expected one of");
    expect(bad.exitCode).toBe(1);
  });
});
