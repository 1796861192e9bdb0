// Replays cases against the whole service in this process: one service and one store at a time, answers and what is left
// behind compared.

import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, credentials, Metadata, type MethodDefinition, type ServiceError } from "@grpc/grpc-js";
import type { startApp } from "../../src/process/app.ts";
import { loadProto } from "../support/load-proto.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { startBareApp } from "../support/test-app.ts";
import type { CounterStore } from "./counter-stores.ts";
import { clock, differences, keyDifferences, nowSeconds, withWindows } from "./expect-answer.ts";
import { type LoadedResponse, normalResponse } from "./normal-form.ts";
import { type HttpStep, needsOwnService, type RecordedCase, type RecordedKey, type Step } from "./recorded.ts";
import { statDifferences } from "./stats-of-metrics.ts";

type App = Awaited<ReturnType<typeof startApp>>;

const READY_MS_MAX = 10_000;
/** Health follows the store within this. */
const HEALTH_MS = 300;
const DEADLINE_MS = 15_000;

type Method = MethodDefinition<object, object>;

/** Where the rules of one service come from. */
export interface CaseRules {
  /** What points the service at them. */
  readonly env: Readonly<Record<string, string>>;
  /** Has these rules in force, in the place of all others. */
  use(files: Readonly<Record<string, string>>, app: App): Promise<void>;
  /** Adds files to the others, or takes away those that are null; not before `use`. */
  write?(files: Readonly<Record<string, string | null>>): void;
  stop(): Promise<void>;
}

/** Replays cases that share their settings on one service; one list of differences per case. */
export async function replayGroup(
  cases: readonly RecordedCase[],
  store: CounterStore,
  openRules: (files: Readonly<Record<string, string>>) => Promise<CaseRules> = async (files) => new RulesFolder(files),
): Promise<string[][]> {
  const [first] = cases;
  if (first === undefined) return [];
  await store.flush();
  const rules = await openRules(first.files ?? {});
  const { app } = await startBareApp(
    { COMPATIBILITY_MODE: "true", ...store.env, ...rules.env, STORE_DEADLINE: "1s", ...first.env },
    clock,
  );
  const replay = new Replay(app, store, rules);
  try {
    const results: string[][] = [];
    for (const one of cases) {
      if (cases.length > 1) await replay.useRules(one.files ?? {});
      results.push(await replay.run(one, !needsOwnService(one)));
    }
    return results;
  } finally {
    replay.close();
    await app.stop();
    await rules.stop();
  }
}

/** The folder of rule files of one service: a link that is swapped, as Kubernetes swaps mounted files. */
class RulesFolder implements CaseRules {
  readonly env: Readonly<Record<string, string>>;
  readonly #root = temporaryFolder("headgate-vectors");
  #written = 0;

  constructor(files: Readonly<Record<string, string>>) {
    this.env = { RUNTIME_ROOT: this.#root, RUNTIME_SUBDIRECTORY: "ratelimit" };
    mkdirSync(join(this.#root, "ratelimit"));
    this.#replace(files);
  }

  async use(files: Readonly<Record<string, string>>, app: App): Promise<void> {
    this.#replace(files);
    await app.reload();
  }

  /** Writes a new file and renames it, so that nobody reads half a file. */
  write(files: Readonly<Record<string, string | null>>): void {
    for (const [name, text] of Object.entries(files)) {
      const path = join(this.#root, "ratelimit", "config", name);
      if (text === null) rmSync(path, { force: true });
      else {
        const beside = join(this.#root, `beside-${this.#written++}`);
        writeFileSync(beside, text);
        renameSync(beside, path);
      }
    }
  }

  async stop(): Promise<void> {
    rmSync(this.#root, { recursive: true, force: true });
  }

  #replace(files: Readonly<Record<string, string>>): void {
    const folder = join(this.#root, `rules-${this.#written++}`);
    mkdirSync(folder);
    const link = `${folder}-link`;
    symlinkSync(folder, link);
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
    renameSync(link, join(this.#root, "ratelimit", "config"));
  }
}

class Replay {
  readonly #app: App;
  readonly #store: CounterStore;
  readonly #rules: CaseRules;
  readonly #client: Client;
  #rulesInForce: string | undefined;

  constructor(app: App, store: CounterStore, rules: CaseRules) {
    this.#app = app;
    this.#store = store;
    this.#rules = rules;
    this.#client = new Client(`127.0.0.1:${app.grpcPort}`, credentials.createInsecure(), {
      "grpc.enable_retries": 0,
    });
  }

  close(): void {
    this.#client.close();
  }

  /** Has these rules in force. */
  async useRules(files: Readonly<Record<string, string>>): Promise<void> {
    const text = JSON.stringify(files);
    if (text === this.#rulesInForce) return;
    if (this.#rulesInForce !== undefined) await this.#rules.use(files, this.#app);
    this.#rulesInForce = text;
  }

  /** `isShared`: others ran on this service before. */
  async run(one: RecordedCase, isShared: boolean): Promise<string[]> {
    await this.#store.flush();
    const before = one.stats !== undefined && isShared ? await this.#metrics() : "";
    const wrong: string[] = [];
    for (const [i, step] of one.steps.entries()) {
      const askedS = nowSeconds();
      const got = await this.#do(step);
      if (step.answer === undefined) continue;
      wrong.push(...compare(step, got, askedS).map((line) => `step ${i + 1}: ${line}`));
    }
    if (one.steps.some((step) => step.redis !== undefined)) await this.#whenReady();
    if (one.redisKeys !== undefined) wrong.push(...(await this.#counterDifferences(one.redisKeys)));
    if (one.stats !== undefined) {
      wrong.push(...statDifferences(one.stats, await this.#metrics(), before));
    }
    return wrong;
  }

  async #counterDifferences(recorded: readonly RecordedKey[]): Promise<string[]> {
    const { dropsZeros = false, lifetimeSlackS } = this.#store;
    const found = await this.#store.counters();
    if (found === undefined) return [];
    const expected = dropsZeros ? recorded.filter(({ value }) => value !== "0") : recorded;
    return keyDifferences(expected, found, lifetimeSlackS);
  }

  // After a case that took Redis away: the next one on this service begins when it is reached again.
  async #whenReady(): Promise<void> {
    const end = Date.now() + READY_MS_MAX;
    const url = `http://127.0.0.1:${this.#app.httpPort}/readyz`;
    while ((await fetch(url)).status !== 200 && Date.now() < end) await sleep(50);
  }

  async #do(step: Step): Promise<unknown> {
    if (step.request !== undefined) return await this.#ask(step, step.request);
    if (step.raw !== undefined) {
      const path = step.method ?? shouldRateLimit.path;
      return await this.#call({ ...shouldRateLimit, path, requestSerialize: asIs }, Buffer.from(step.raw, "hex"));
    }
    if (step.health !== undefined) {
      const answer = await this.#call(healthCheck, step.health, DEADLINE_MS, (reply) => reply);
      return "status" in answer ? { health: answer.status } : answer;
    }
    if (step.http !== undefined) return await this.#http(step.http);
    if (step.write !== undefined) {
      this.#rules.write?.(step.write);
      await this.#app.reload();
    }
    if (step.redis === "stop") await this.#store.kill?.();
    if (step.redis === "start") await this.#store.restart?.();
    if (step.redisCmd !== undefined) await this.#store.command?.(step.redisCmd.map(withWindows));
    if (step.sleepMs !== undefined) await sleep(step.sleepMs);
    return undefined;
  }

  async #ask(step: Step, request: object): Promise<unknown> {
    const end = Date.now() + (step.eventuallyMs ?? 0);
    for (;;) {
      const answer = await this.#call(shouldRateLimit, request, step.deadlineMs);
      if (step.eventuallyMs !== undefined && !("error" in answer)) await sleep(HEALTH_MS);
      if (!("error" in answer) || Date.now() >= end) return answer;
      await sleep(100);
    }
  }

  #call(
    method: Method,
    request: object,
    deadlineMs = DEADLINE_MS,
    form: (reply: object) => object = (reply) => normalResponse(reply as LoadedResponse),
  ): Promise<Record<string, unknown>> {
    return new Promise((resolve) => {
      const { path, requestSerialize, responseDeserialize } = method;
      const options = { deadline: Date.now() + deadlineMs };
      this.#client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        new Metadata(),
        options,
        done,
      );
      function done(error: ServiceError | null, reply?: object): void {
        resolve(error === null ? { ...form(reply ?? {}) } : { error: error.code });
      }
    });
  }

  #http({
    method,
    path,
    body,
    port,
    headers = {},
    timeoutMs = DEADLINE_MS,
  }: HttpStep): Promise<Record<string, unknown>> {
    return new Promise((resolve) => {
      const request = httpRequest(
        {
          host: "127.0.0.1",
          port: port === "debug" ? this.#app.debugPort : this.#app.httpPort,
          method,
          path,
          headers: lengthOf(body, headers),
          agent: false,
        },
        (response) => {
          let text = "";
          response.setEncoding("utf8");
          response.on("data", (part: string) => {
            text += part;
          });
          response.on("end", () => {
            const contentType = response.headers["content-type"] ?? null;
            const { location } = response.headers;
            resolve({
              status: response.statusCode ?? 0,
              contentType,
              ...(location === undefined ? {} : { location }),
              body: contentType === "application/json" ? JSON.parse(text) : text,
            });
          });
        },
      );
      request.setTimeout(timeoutMs, () => request.destroy(new Error("timeout")));
      request.on("error", (error) => resolve(error.message === "timeout" ? { timeout: true } : { dropped: true }));
      request.end(body);
    });
  }

  async #metrics(): Promise<string> {
    const { body } = await this.#http({ method: "GET", path: "/metrics" });
    return String(body);
  }
}

const shouldRateLimit = methodOf("envoy.service.ratelimit.v3.RateLimitService", "ShouldRateLimit");
const healthCheck = methodOf("grpc.health.v1.Health", "Check");

function methodOf(service: string, name: string): Method {
  const definition = loadProto()[service] as unknown as Readonly<Record<string, Method>>;
  return definition[name] as Method;
}

// Node sends no length by itself with methods that seldom have a body.
function lengthOf(body: string | undefined, headers: Readonly<Record<string, string>>): Record<string, string> {
  return { ...headers, ...(body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) }) };
}

function asIs(message: object): Buffer {
  return message as Buffer;
}

// Codes and texts of errors are Headgate's own: that there is an error is what counts, over HTTP its status too.
function compare(step: Step, got: unknown, askedS: number): string[] {
  const expected = step.answer as Readonly<Record<string, unknown>>;
  const found = got as Readonly<Record<string, unknown>>;
  if ("error" in expected) {
    const isError = "error" in found || "dropped" in found || Number(found.status) >= 400;
    return isError ? [] : differences(expected, found, "answer", askedS);
  }
  if (step.http?.sortLines === true) return lineDifferences(String(expected.body), String(found.body));
  if (!("body" in expected) && "body" in found)
    return differences(expected, { ...found, body: undefined }, "answer", askedS);
  return differences(expected, found, "answer", askedS);
}

// The order of lines changes with every answer of the recorded service.
function lineDifferences(expected: string, got: string): string[] {
  const sorted = (text: string) =>
    text
      .split("\n")
      .filter((line) => line !== "")
      .toSorted();
  return differences(sorted(expected), sorted(got), "lines");
}
