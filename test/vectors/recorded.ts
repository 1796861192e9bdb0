// The recorded cases as types. What they mean is said in test/fixtures/vectors/README.md.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";

export interface HttpStep {
  readonly method: string;
  readonly path: string;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly port?: "debug";
  readonly timeoutMs?: number;
  readonly sortLines?: boolean;
}

export interface Step {
  readonly request?: object;
  readonly raw?: string;
  readonly method?: string;
  readonly http?: HttpStep;
  readonly health?: { readonly service: string };
  readonly write?: Readonly<Record<string, string | null>>;
  readonly redis?: "stop" | "start";
  readonly redisCmd?: readonly string[];
  readonly sleepMs?: number;
  readonly deadlineMs?: number;
  readonly eventuallyMs?: number;
  readonly answer?: unknown;
}

export interface RecordedKey {
  readonly key: string;
  readonly value: string;
  readonly ttl: string;
}

export interface RecordedCase {
  readonly name: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
  readonly steps: readonly Step[];
  readonly redisKeys?: readonly RecordedKey[];
  readonly stats?: Readonly<Record<string, number>>;
}

const CASES = resolve(import.meta.dirname, "../fixtures/vectors/cases.json");

/** All recorded cases, in their order. */
export function readCases(): readonly RecordedCase[] {
  return JSON.parse(readFileSync(CASES, "utf8")) as readonly RecordedCase[];
}

/** Cases that may share one service: those with equal settings, but for the ones that need a service of their own. */
export function groupCases(cases: readonly RecordedCase[]): RecordedCase[][] {
  const groups = new Map<string, RecordedCase[]>();
  for (const one of cases) {
    const key = needsOwnService(one) ? one.name : JSON.stringify(one.env ?? {});
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [one]);
    else group.push(one);
  }
  return [...groups.values()].toSorted((one, other) => other.length - one.length);
}

/** True if the case is about a start, a change of rules or a fault, or if what a service remembers would tell. */
export function needsOwnService({ env, steps }: RecordedCase): boolean {
  if (env?.LOCAL_CACHE_SIZE_IN_BYTES !== undefined) return true;
  return steps.some(
    ({ write, redis, health, request, answer }) =>
      write !== undefined ||
      redis !== undefined ||
      health !== undefined ||
      (request !== undefined && typeof answer === "object" && answer !== null && "error" in answer),
  );
}

/** Those whose domains no other one before them uses under the same settings: for a store that nobody can empty. */
export function withDomainsOfTheirOwn(cases: readonly RecordedCase[]): RecordedCase[] {
  const seen = new Set<string>();
  return cases.filter((one) => {
    const domains = domainsOf(one).map((domain) => JSON.stringify([one.env ?? {}, domain]));
    const isNew = domains.every((domain) => !seen.has(domain));
    for (const domain of domains) seen.add(domain);
    return isNew;
  });
}

function domainsOf({ steps }: RecordedCase): string[] {
  return [...JSON.stringify(steps).matchAll(/\\?"domain\\?":\\?"([^"\\]*)/g)].map(([, domain = ""]) => domain);
}
