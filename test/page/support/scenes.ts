// States of a service that an operator comes upon, each made the way it comes about: by traffic, by edits, by a store
// that dies. The tests look at them, and the pictures of the docs are taken of them.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SystemClock } from "../../../src/base/clock.ts";
import { openCallers, requestAbout } from "../../support/callers.ts";
import { RedisServer } from "../../support/redis-server.ts";
import { startService } from "../../support/service-process.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { type AskedRequest, startTestApp, type TestApp } from "../../support/test-app.ts";

export const TOKEN = "a-token-of-the-operators";

const RULES = `domain: edge
global_limit: { requests_per_unit: 20000, unit: second }
descriptors:
  - key: tenant
    rate_limits:
      - { name: per-second, requests_per_unit: 50, unit: second }
      - { name: per-day, requests_per_unit: 100000, unit: day, algorithm: fixed_window }
  - key: user
    rate_limit: { requests_per_unit: 5, unit: hour }
  - key: login
    on_store_failure: deny
    rate_limit: { requests_per_unit: 10, unit: minute }
  - key: plan
    value: free
    descriptors:
      - key: api_key
        shadow_mode: true
        on_store_failure: local
        rate_limit: { tokens_per_second: 10, burst: 20 }
`;

/** A mistake in its fifth line. */
const BAD_RULES = RULES.replace("rate_limits:", "rate_limitz:");

export interface Scene {
  readonly url: string;
  readonly app: TestApp;
  /** Goes on in a later time. */
  skip(seconds: number): void;
  /** Goes on calling with these entries, so often a second, until the scene ends. */
  call(entries: Readonly<Record<string, string>>, perSecond: number): void;
  ask(request: AskedRequest, perSecond: number): void;
  stop(): Promise<void>;
}

/** All is well, and some calls come. */
export async function healthy(env: Readonly<Record<string, string>> = {}): Promise<Scene> {
  const scene = await open(env);
  scene.call({ tenant: "acme" }, 12);
  scene.call({ plan: "free", api_key: "k-17" }, 5);
  return scene;
}

/** One key asks far more than it may. */
export async function flood(env: Readonly<Record<string, string>> = {}): Promise<Scene> {
  const scene = await healthy(env);
  scene.call({ user: "alice" }, 40);
  return scene;
}

/** Redis was there and is gone. */
export async function storeAway(): Promise<Scene & { bringBack(): Promise<void> }> {
  const redis = await RedisServer.start();
  const scene = await healthy({ REDIS_URL: `127.0.0.1:${redis.port}` });
  await redis.kill();
  return {
    ...scene,
    bringBack: () => redis.restart(),
    async stop() {
      await scene.stop();
      await redis.stop();
    },
  };
}

/** Redis was there and hangs: it takes calls and answers none. */
export async function storeHangs(): Promise<Scene & { goOn(): void }> {
  const redis = await RedisServer.start();
  const scene = await healthy({ REDIS_URL: `127.0.0.1:${redis.port}` });
  // A breaker opens by failures of at least twenty calls within a second.
  scene.call({ tenant: "globex" }, 60);
  redis.pause();
  return {
    ...scene,
    goOn: () => redis.resume(),
    async stop() {
      redis.resume();
      await scene.stop();
      await redis.stop();
    },
  };
}

/** Somebody has saved a rule file with a mistake. */
export async function rulesRefused(): Promise<Scene> {
  const scene = await healthy();
  await writeFile(join(scene.app.rulesDir, "rules.yaml"), BAD_RULES);
  await scene.app.app.reload();
  return scene;
}

/** Callers send descriptors, and name a domain, that no rule is for. */
export async function unmatched(): Promise<Scene> {
  const scene = await healthy();
  scene.call({ tenent: "acme", plan: "x" }, 5);
  await scene.app.ask({ domain: "egde", descriptors: [{ entries: [{ key: "tenant", value: "acme" }] }] });
  return scene;
}

/** A caller floods and is blocked by alice, who says why. */
export async function blocked(): Promise<Scene> {
  const tokens = join(temporaryFolder("headgate-tokens"), "tokens");
  await writeFile(tokens, `alice ${TOKEN}\n`);
  const scene = await flood({ ADMIN_TOKEN_FILE: tokens });
  const entries = [{ key: "user", value: "alice" }];
  await setLimits(scene, [{ domain: "edge", entries, block: true, until_seconds: 3_600, note: "INC-1234" }]);
  return scene;
}

/** Sets limits at run time. */
export async function setLimits({ app }: Scene, limits: readonly object[]): Promise<void> {
  const headers = { authorization: `Bearer ${TOKEN}` };
  const answer = await app.http("/limits", { method: "PUT", body: JSON.stringify({ limits }), headers });
  if (answer.status !== 200) throw new Error(await answer.text());
}

/** A rule of the files that no call meets, an hour and ten thousand calls later. */
export async function deadLimit(): Promise<Scene> {
  const scene = await healthy();
  // The first look, from which calls are counted.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  for (let i = 0; i < 105; i++)
    await Promise.all(Array.from({ length: 100 }, () => scene.app.hit({ plan: "free", api_key: "k-17" })));
  // Looks are five seconds apart, judgements a minute.
  for (const seconds of [3_700, 70]) {
    scene.skip(seconds);
    await scene.app.http("/state");
    await new Promise((resolve) => setTimeout(resolve, 1_100));
  }
  return scene;
}

/** Three hundred rules, of which calls meet three. */
export async function manyRules(): Promise<Scene> {
  const routes = Array.from(
    { length: 300 },
    (_, i) =>
      `  - key: route_${i}\n    descriptors: [{ key: tenant, rate_limit: { requests_per_unit: 20, unit: second } }]\n`,
  );
  const scene = await open({}, `${RULES}${routes.join("")}`);
  scene.call({ tenant: "acme" }, 12);
  scene.call({ route_2: "x", tenant: "globex" }, 30);
  scene.call({ route_292: "x", tenant: "acme" }, 5);
  return scene;
}

const LONG_DOMAIN = "a-very-long-domain-name.of.a-big-company.internal.example.com/production-europe-west-4/gateway";

/** Long domains, and callers whose keys begin alike; one is hashed. */
export async function longKeys(): Promise<Scene> {
  const rule = "rate_limit: { requests_per_unit: 5, unit: minute }";
  const rules = `domain: ${LONG_DOMAIN}\ndescriptors:\n  - { key: organization_and_team, ${rule} }\n  - { key: session_token, hash_values: true, ${rule} }\n`;
  const scene = await open({}, rules);
  const ask = (key: string, value: string, perSecond: number) =>
    scene.ask({ domain: LONG_DOMAIN, descriptors: [{ entries: [{ key, value }] }] }, perSecond);
  for (const [i, team] of ["payments", "search", "checkout"].entries())
    ask(
      "organization_and_team",
      `the-very-same-organization-with-a-long-name.${"x".repeat(120)}.team-${team}`,
      12 - 3 * i,
    );
  ask("session_token", "eyJhbGciOiJIUzI1NiJ9", 4);
  return scene;
}

/** Two processes share a Redis; one is flooded. `url` is the other's. */
export async function twoProcesses(): Promise<Pick<Scene, "url" | "skip" | "stop">> {
  const redis = await RedisServer.start();
  const env = { REDIS_URL: `127.0.0.1:${redis.port}` };
  const processes = [await startService(env, { rules: RULES }), await startService(env, { rules: RULES })];
  const ports = processes.map(({ grpcPort }) => grpcPort);
  const callers = ports.flatMap((port) => openCallers(1, `127.0.0.1:${port}`));
  const timers = [
    setInterval(() => void callers[0]?.ask(requestAbout("user", "alice")).catch(() => undefined), 30),
    setInterval(() => void callers[1]?.ask(requestAbout("tenant", "acme")).catch(() => undefined), 80),
  ];
  return {
    url: `http://127.0.0.1:${processes[1]?.httpPort}/`,
    skip: () => undefined,
    async stop() {
      for (const timer of timers) clearInterval(timer);
      for (const caller of callers) caller.close();
      for (const process of processes) await process.stop();
      await redis.stop();
    },
  };
}

/** The service alone, without calls. */
export async function open(env: Readonly<Record<string, string>> = {}, rules = RULES): Promise<Scene> {
  const clock = new SkippingClock();
  const app = await startTestApp(rules, env, clock);
  const timers: NodeJS.Timeout[] = [];
  const ask: Scene["ask"] = (request, perSecond) => {
    // What a call comes to is on the page.
    timers.push(setInterval(() => void app.ask(request).catch(() => undefined), 1_000 / perSecond));
  };
  return {
    url: `http://127.0.0.1:${app.httpPort}/`,
    app,
    skip: (seconds) => clock.skip(seconds),
    ask,
    call: (entries, perSecond) =>
      ask(
        { domain: "edge", descriptors: [{ entries: Object.entries(entries).map(([key, value]) => ({ key, value })) }] },
        perSecond,
      ),
    async stop() {
      for (const timer of timers) clearInterval(timer);
      await app.stop();
    },
  };
}

/** The time of the machine, and what was skipped. */
class SkippingClock extends SystemClock {
  #skippedUs = 0;

  override nowUs(): number {
    return super.nowUs() + this.#skippedUs;
  }

  skip(seconds: number): void {
    this.#skippedUs += seconds * 1_000_000;
  }
}
