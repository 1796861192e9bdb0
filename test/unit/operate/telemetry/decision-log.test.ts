// The decision log: which decisions become lines, how many, what they hide, and that a simulation reads them back.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LimitRequest } from "../../../../src/engine/domain/request.ts";
import { decodeRequest } from "../../../../src/grpc/rls/codec.ts";
import type { RateLimitService } from "../../../../src/grpc/rls/service.ts";
import { DecisionLog } from "../../../../src/operate/telemetry/decision-log.ts";
import { MemoryStore } from "../../../../src/stores/memory/memory-store.ts";
import { Simulation } from "../../../../src/tools/simulate/simulation.ts";
import { LineCounts, openCalls } from "../../../../src/tools/simulate/sources/open-calls.ts";
import { readWrittenCall } from "../../../../src/tools/simulate/sources/written-call.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { type DrawnCall, drawnCalls, drawnRules } from "../../../support/recorded-calls.ts";
import { PLAIN_SETTINGS, plainService } from "../../../support/recorded-service.ts";
import { rulesFromYaml } from "../../../support/rules.ts";
import { runs } from "../../../support/runs.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";
import { bytesField, varintField } from "../../../support/wire.ts";

type DecisionLogOptions = ConstructorParameters<typeof DecisionLog>[0];

const folder = temporaryFolder("headgate-decisions");
const TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/** A service in memory whose decisions are written down. */
class Rig {
  readonly clock = new ManualClock();
  readonly lines: string[] = [];
  readonly log: DecisionLog;
  readonly #service: RateLimitService;

  constructor(rules: string, options: Partial<DecisionLogOptions> = {}, compatible = false) {
    const { clock } = this;
    this.log = new DecisionLog({
      kind: "all",
      linesPerSecond: 1_000_000,
      clock,
      write: (line) => {
        this.lines.push(line);
        return true;
      },
      ...options,
    });
    const store = new MemoryStore({ clock });
    const parts = { options: { ...PLAIN_SETTINGS, compatible }, store, clock, decisions: this.log };
    this.#service = plainService(rulesFromYaml(rules, { compatible }), parts);
  }

  ask(message: Buffer): string {
    let answer = "";
    this.#service.handle(message, Number.POSITIVE_INFINITY, {
      traceparent: TRACE,
      ok: (bytes) => {
        answer = Buffer.from(bytes).toString("base64");
      },
      fail: (_, text) => {
        answer = text;
      },
    });
    return answer;
  }

  askAll(calls: readonly DrawnCall[]): readonly string[] {
    return calls.map(({ atUs, message }) => {
      this.clock.setUs(Math.max(this.clock.nowUs(), atUs));
      return this.ask(message);
    });
  }
}

function call(...entries: readonly (readonly [string, string | Buffer])[]): Buffer {
  const bytes = entries.map(([key, value]) => bytesField(1, Buffer.concat([bytesField(1, key), bytesField(2, value)])));
  return Buffer.concat([bytesField(1, "edge"), bytesField(2, Buffer.concat(bytes))]);
}

const RULES = `domain: edge
descriptors:
  - { key: user, rate_limit: { name: per-user, tokens_per_second: 1, burst: 1 } }
  - { key: secret, hash_values: true, rate_limit: { tokens_per_second: 1, burst: 1 } }
`;

describe("the decision log", () => {
  // Promise(simulations): A decision log of all calls is a recording, reservations and settlements included: a simulation decides the same.
  test("of all calls is a recording: a simulation of it decides as the service did", async () => {
    await fc.assert(
      fc.asyncProperty(drawnRules, drawnCalls(40), async (rules, calls) => {
        // Hashed values are other values: what matches them exactly would not.
        const open = rules.replaceAll('"hash_values":true', '"hash_values":false');
        const rig = new Rig(open);
        rig.askAll(calls);
        expect(rig.lines).toHaveLength(calls.length);
        const file = join(folder, "all.jsonl");
        writeFileSync(file, rig.lines.map((line) => `${line}\n`).join(""));
        const codes: string[] = [];
        const simulation = new Simulation({
          ruleSet: rulesFromYaml(open),
          settings: PLAIN_SETTINGS,
          onDecided: ({ decision }) => codes.push(decision.overLimit ? "OVER_LIMIT" : "OK"),
        });
        for await (const batch of openCalls({ files: [file], mapping: undefined, lateMaxUs: 0 }, new LineCounts())) {
          for (const one of batch) simulation.feed(one);
        }
        expect(codes).toEqual(rig.lines.map((line) => (JSON.parse(line) as { code: string }).code));
      }),
      { numRuns: runs(8) },
    );
  });

  test("of refusals says which limit, what is left, how long to wait, and whose trace it is", () => {
    const rig = new Rig(RULES, { kind: "refusals" });
    for (let i = 0; i < 3; i++) rig.ask(call(["user", "ann"]));
    expect(rig.lines.map((line) => JSON.parse(line) as unknown)).toEqual(
      [1, 2].map(() => ({
        at: "2026-01-01T00:00:00.000000Z",
        domain: "edge",
        descriptors: [{ entries: [{ key: "user", value: "ann" }] }],
        code: "OVER_LIMIT",
        limit: "edge/user#per-user",
        cost: 1,
        remaining: 0,
        wait_seconds: 1,
        trace_id: "0af7651916cd43dd8448eb211c80319c",
      })),
    );
  });

  test("names the required entry that a call lacked", () => {
    const rig = new Rig(`${RULES}require: [tenant]\non_missing: refuse\n`);
    rig.ask(call(["user", "ann"]));
    expect(JSON.parse(rig.lines[0] ?? "")).toMatchObject({ code: "OVER_LIMIT", missing: "tenant" });
  });

  // Promise(input): `hash_values` hides values in bucket names, labels, metadata, `explain`, `/top` and the decision log.
  test("shows hashes of values that a rule hides, and bytes that are no text as such", () => {
    const rig = new Rig(RULES);
    rig.ask(call(["secret", "password"]));
    rig.ask(call(["user", Buffer.from([0xff])]));
    expect(rig.lines.join("")).not.toContain("password");
    expect(rig.lines[0]).toMatch(/"value":"%#[\w-]{43}"/);
    expect(rig.lines[1]).toContain('"value_base64":"/w=="');
  });

  test.each([
    {
      what: "no pattern of the key accepts",
      rules: "{ key: secret, match: { prefix: sk_ }, hash_values: true, LIMIT }",
    },
    { what: "no exact value is", rules: "{ key: secret, value: a, hash_values: true, LIMIT }" },
    {
      what: "comes under another parent",
      rules: "{ key: tenant, value: a, descriptors: [{ key: secret, hash_values: true, LIMIT }] }",
    },
    {
      what: "comes under a rule that hides",
      rules: "{ key: tenant, value: a, hash_values: true, descriptors: [{ key: secret, LIMIT }] }",
    },
    { what: "fits no star of a key", rules: '{ key: "secret_*", value: a, hash_values: true, LIMIT }' },
    {
      what: "comes after an entry without rules",
      rules: "{ key: user, LIMIT }, { key: secret, hash_values: true, LIMIT }",
    },
  ])("shows the hash of a value that $what, in either mode", ({ rules }) => {
    const limit = "rate_limit: { requests_per_unit: 1, unit: hour }";
    for (const compatible of [false, true]) {
      const rig = new Rig(`domain: edge\ndescriptors: [${rules.replaceAll("LIMIT", limit)}]\n`, {}, compatible);
      rig.ask(call(["secret", "password"]));
      rig.ask(call(["tenant", "b"], ["secret", "password"]));
      rig.ask(call(["user", "ann"], ["more", "x"], ["secret", "password"]));
      expect(rig.lines).toHaveLength(3);
      expect(rig.lines.join("")).not.toContain("password");
    }
  });

  test("shows values of keys that no rule hides", () => {
    const rig = new Rig(RULES);
    rig.ask(call(["tenant", "b"], ["user", "ann"]));
    expect(rig.lines.join("")).toContain('"value":"ann"');
  });

  test("says what a settlement reports, one hit included, and hides ids of holds like values", () => {
    const hold = "hold: { id: r, ttl: 60s }";
    const limit = "rate_limit: { algorithm: fixed_window, requests_per_unit: 9, unit: hour }";
    const rule = (key: string, more = "") => `  - { key: ${key}, ${hold}, ${more} ${limit} }\n`;
    const rig = new Rig(`domain: edge\ndescriptors:\n${rule("user")}${rule("secret", "hash_values: true,")}`);
    const one = varintField(3, 1);
    rig.ask(Buffer.concat([call(["user", "ann"], ["r", "r1"], ["settle", "1"]), one]));
    rig.ask(call(["secret", "ann"], ["r", "r1"]));
    rig.ask(call(["secret", "ann"], ["r", "r1"], ["settle", "1"]));
    expect(JSON.parse(rig.lines[0] ?? "")).toMatchObject({ hits_addend: 1 });
    // The same hash in both, so that a simulation finds the hold.
    const [paid, settled] = rig.lines.slice(1).map((line) => /"key":"r","value":"([^"]+)"/.exec(line)?.[1]);
    expect(paid).toMatch(/^%#/);
    expect(settled).toBe(paid);
  });

  test("of hits beyond all bounds is read back", () => {
    const rig = new Rig(RULES);
    const hits = varintField(1, 2n ** 60n);
    const entry = bytesField(1, Buffer.concat([bytesField(1, "user"), bytesField(2, "ann")]));
    rig.ask(Buffer.concat([bytesField(1, "edge"), bytesField(2, Buffer.concat([entry, bytesField(3, hits)]))]));
    const [read] = rig.lines.map((line) => readWrittenCall(JSON.parse(line) as Record<string, unknown>));
    const request = new LimitRequest();
    decodeRequest(read?.message ?? Buffer.alloc(0), request);
    expect(request.descriptors[0]?.hits).toBe(2 ** 60);
  });

  // Promise(simulations): The decision log has no more lines of a limit than its rate, and says how many are missing.
  test("writes no more lines of a limit than its rate, and says how many were left out", () => {
    const rig = new Rig(RULES, { kind: "refusals", linesPerSecond: 5 });
    for (let i = 0; i < 100; i++) rig.ask(call(["user", "ann"]));
    rig.ask(call(["secret", "a"]));
    rig.ask(call(["secret", "a"]));
    expect(rig.lines).toHaveLength(6);
    rig.clock.advanceMs(400);
    for (let i = 0; i < 100; i++) rig.ask(call(["user", "ann"]));
    expect(rig.lines).toHaveLength(8);
    expect(rig.lines.map((line) => (JSON.parse(line) as { left_out?: number }).left_out)).toEqual([
      ...Array.from({ length: 6 }, () => undefined),
      94,
      undefined,
    ]);
    expect(rig.log).toMatchObject({ written: 8, leftOut: 94 + 98 });
  });

  test("counts what there is no room for", () => {
    const rig = new Rig(RULES, { write: () => false });
    rig.ask(call(["user", "ann"]));
    expect(rig.log).toMatchObject({ written: 0, leftOut: 1 });
  });
});
