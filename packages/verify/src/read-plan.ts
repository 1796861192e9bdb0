// Reads a plan from a file or a command line, and reports all mistakes at once.

import { parse } from "yaml";
import type { Entry } from "./call.ts";
import { ALGORITHMS, algorithmsOf, type Limit, parseRate, UNITS_MS } from "./limit.ts";
import { entriesText, type Fault, type GlobalLimit, isStarred, limitsOf, type Plan, type PlannedKind } from "./plan.ts";

const FOR_DEFAULT = "20s";
/** All calls of a run are kept: 1,500 a second at most. */
const TIME_MAX_MS = 600_000;
const PLAN_FIELDS = "servers http cert key domain for seed refunds limits global faults".split(" ");
const ENTRIES = /^[^=,]+=[^,]*(?:,[^=,]+=[^,]*)*$/;
const LIMIT_FIELDS = ["limit", "burst", "algorithm", "tolerance"];

/**
 * The plan of a file's text or of its fields, or all that is wrong with it. `seed`: unless it has one. Throws for text
 * that is no YAML.
 */
export function readPlan(plan: string | object, seed: number): Plan | readonly string[] {
  const reader = new Reader();
  const read = reader.plan(typeof plan === "string" ? parse(plan) : plan, seed);
  return reader.problems.length > 0 ? reader.problems : read;
}

type Fields = Readonly<Record<string, unknown>>;

class Reader {
  readonly problems: string[] = [];

  plan(value: unknown, seed: number): Plan {
    const fields = this.#fields(value, "plan", PLAN_FIELDS);
    const { http, servers, cert, key, domain, global, faults, refunds } = fields;
    const isHttp = http !== undefined;
    if (isHttp === (servers !== undefined)) this.#expected("plan", "either servers or http");
    if (isHttp && refunds) this.#expected("refunds", "none over HTTP");
    else if (![undefined, true, false].includes(refunds as boolean))
      this.#expected("refunds", "true or false", refunds);
    const plan = {
      servers: isHttp
        ? [this.#text(http, "http", /^https?:\/\/\S+$/, "a URL")]
        : this.#list(servers, "servers").map((one) => this.#text(one, "servers", /^\S+:\d+$/, "host:port")),
      isHttp,
      certFile: cert === undefined ? cert : this.#text(cert, "cert"),
      keyFile: key === undefined ? key : this.#text(key, "key"),
      domain: isHttp ? "" : this.#text(domain, "domain"),
      forMs: this.#time(fields.for ?? FOR_DEFAULT, "for"),
      seed: this.#whole(fields.seed ?? seed, "seed"),
      hasRefunds: refunds === true,
      kinds: this.#list(fields.limits, "limits").map((one, at) => this.#kind(one, `limits[${at}]`, isHttp)),
      global: global === undefined ? undefined : this.#global(global),
      faults: (faults === undefined ? [] : this.#list(faults, "faults")).map((one, at) =>
        this.#fault(one, `faults[${at}]`),
      ),
    };
    plan.faults.forEach(({ atMs }, at) => {
      if (atMs > plan.forMs) this.#expected(`faults[${at}].at`, "a time before the end of the run");
    });
    if ((cert === undefined) !== (key === undefined)) this.#expected("plan", "cert and key together");
    else if (cert !== undefined && (isHttp || !plan.servers.every((server) => server.startsWith("https://"))))
      this.#expected("cert", "servers with TLS, https://host:port");
    this.#checkShared(plan.kinds);
    const limits = plan.kinds.map((_, kind) => limitsOf(plan, kind)).filter(({ length }) => length > 1);
    const unclear = limits.flat().some((limit) => algorithmsOf(limit).length > 1);
    if (unclear) this.#expected("limits", "an algorithm or a burst of each limit, as some calls pay several");
    return plan;
  }

  #global(value: unknown): GlobalLimit {
    const fields = this.#fields(value, "global", [...LIMIT_FIELDS, "count"]);
    const { count = "calls" } = fields;
    if (count !== "calls" && count !== "hits") this.#expected("global.count", "calls or hits", count);
    return { ...this.#limit(fields, "global"), countsHits: count === "hits" };
  }

  /**
   * A limit with its entries, or a list of those: descriptors of one call. The same entries again are a further limit
   * on them.
   */
  #kind(value: unknown, where: string, isHttp: boolean): PlannedKind {
    const descriptors = new Map<string, { readonly entries: readonly Entry[]; readonly limits: Limit[] }>();
    for (const one of Array.isArray(value) ? value : [value]) {
      const fields = this.#fields(one, where, ["entries", ...LIMIT_FIELDS]);
      const isAnyone = isHttp && fields.entries === undefined;
      const text = isAnyone ? "" : this.#text(fields.entries, `${where}.entries`, ENTRIES, "key=value,key2=value2");
      const entries = [...text.matchAll(/([^=,]+)=([^,]*)/g)].map(([, key = "", value = ""]) => ({ key, value }));
      const descriptor = descriptors.get(text) ?? { entries, limits: [] };
      descriptor.limits.push(this.#limit(fields, where));
      descriptors.set(text, descriptor);
    }
    if (isHttp && descriptors.size > 1) this.#expected(where, "one descriptor, as there is no other over HTTP");
    return { descriptors: [...descriptors.values()] };
  }

  /**
   * Calls with the same entries pay the same bucket, unless each caller has its own: they must name the same limits.
   */
  #checkShared(kinds: readonly PlannedKind[]): void {
    const known = new Map<string, string>();
    for (const { entries, limits } of kinds.flatMap(({ descriptors }) => descriptors)) {
      const [text, own] = [entriesText(entries), JSON.stringify(limits)];
      if (isStarred(entries)) continue;
      if ((known.get(text) ?? own) !== own)
        this.#expected("limits", `the same limits wherever ${text} stands (several limits of a call are a list)`);
      known.set(text, own);
    }
  }

  #limit({ limit, burst, algorithm, tolerance = 0 }: Fields, where: string): Limit {
    const rate = parseRate(String(limit));
    if (rate === undefined) this.#expected(`${where}.limit`, "a rate such as 50/s, 1000/h or 20/30s", limit);
    const known = ALGORITHMS.find((one) => one === algorithm);
    if (algorithm !== undefined && known === undefined)
      this.#expected(`${where}.algorithm`, ALGORITHMS.join(", "), algorithm);
    if (burst !== undefined && (known ?? "token_bucket") !== "token_bucket")
      this.#expected(`${where}.burst`, `none, as ${algorithm} has no burst`);
    const more = [burst === undefined ? "" : `, burst ${burst}`, tolerance === 0 ? "" : `, tolerance ${tolerance}`];
    return {
      text: `${limit}${more.join("")}`,
      ...(rate ?? { amount: 1, windowMs: 1 }),
      burst: burst === undefined ? undefined : this.#whole(burst, `${where}.burst`),
      algorithm: known,
      tolerance: this.#whole(tolerance, `${where}.tolerance`),
    };
  }

  #fault(value: unknown, where: string): Fault {
    const { at, run } = this.#fields(value, where, ["at", "run"]);
    return { atMs: this.#time(at, `${where}.at`), run: this.#text(run, `${where}.run`) };
  }

  #fields(value: unknown, where: string, names: readonly string[]): Fields {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      this.#expected(where, `a mapping with ${names.join(", ")}`);
      return {};
    }
    const unknown = Object.keys(value).filter((name) => !names.includes(name));
    for (const name of unknown) this.#expected(where, names.join(", "), name);
    return value as Fields;
  }

  #list(value: unknown, where: string): readonly unknown[] {
    if (Array.isArray(value) && value.length > 0) return value;
    this.#expected(where, "a list");
    return [];
  }

  #text(value: unknown, where: string, pattern = /./, form = "text"): string {
    if (typeof value === "string" && pattern.test(value)) return value;
    this.#expected(where, form, value);
    return "";
  }

  #whole(value: unknown, where: string): number {
    if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
    this.#expected(where, "a whole number", value);
    return 0;
  }

  #time(value: unknown, where: string): number {
    const [, number = "", unit = ""] = /^(\d{1,9}(?:\.\d{1,6})?)(ms|s|m|h)$/.exec(String(value)) ?? [];
    const ms = Number(number) * (UNITS_MS[unit] ?? Number.NaN);
    if (ms <= TIME_MAX_MS) return ms;
    this.#expected(where, "a time such as 20s, 10m at most", value);
    return 0;
  }

  #expected(where: string, what: string, got?: unknown): void {
    this.problems.push(`${where}: expected ${what}${got === undefined ? "" : `, got ${JSON.stringify(got)}`}`);
  }
}
