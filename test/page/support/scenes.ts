// States of a service that an operator comes upon, each made the way it comes about: by traffic, by edits, by a store that dies.
// The tests look at them, and the pictures of the docs are taken of them.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SystemClock } from "../../../src/base/clock.ts";
import { RedisServer } from "../../support/redis-server.ts";
import { startTestApp, type TestApp } from "../../support/test-app.ts";

const RULES = `domain: edge
global_limit: { requests_per_unit: 20000, unit: second }
descriptors:
  - key: tenant
    rate_limits:
      - { name: per-second, requests_per_unit: 50, unit: second }
      - { name: per-day, requests_per_unit: 100000, unit: day, algorithm: fixed_window }
  - key: user
    rate_limit: { requests_per_unit: 5, unit: hour }
  - key: plan
    value: free
    descriptors:
      - key: api_key
        shadow_mode: true
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

/** The service alone, without calls. */
export async function open(env: Readonly<Record<string, string>> = {}): Promise<Scene> {
  const clock = new SkippingClock();
  const app = await startTestApp(RULES, env, clock);
  const timers: NodeJS.Timeout[] = [];
  return {
    url: `http://127.0.0.1:${app.httpPort}/`,
    app,
    skip: (seconds) => clock.skip(seconds),
    call(entries, perSecond) {
      // What a call comes to is on the page.
      timers.push(setInterval(() => void app.hit(entries).catch(() => undefined), 1_000 / perSecond));
    },
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
