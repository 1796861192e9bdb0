// The servers that a run measures. A full run starts one for every figure, so that what a process happens to compile differs
// between rounds as it does between deployments; a quick run keeps them.

import { CORE } from "../harness/pin.mjs";
import { clientFor, startPostgres } from "../harness/postgres.mjs";
import { startRedis } from "../harness/redis.mjs";
import { startServer } from "./h2load.mjs";

/** A process leases once all others have counted it. */
const LEASES_AFTER_MS = 4_500;
const KIND = { yardstick: "yardstick", service: "service, fast lane" };

export class Servers {
  #isKept;
  #profile;
  #redis;
  #postgres;
  #kept = new Map();

  constructor({ isKept = false, profile = false } = {}) {
    this.#isKept = isKept;
    this.#profile = profile;
  }

  /** The Redis that shapes share; started when the first of them asks. */
  async redis() {
    this.#redis ??= await startRedis(CORE.redis);
    return this.#redis;
  }

  // What tells a service where its buckets are.
  async #storeSettings({ store }) {
    if (store === "redis") return { REDIS_URL: `127.0.0.1:${(await this.redis()).port}` };
    if (store !== "postgres") return {};
    this.#postgres ??= await startPostgres(CORE.redis);
    const { host, port, user, database } = clientFor(this.#postgres.port);
    return { BACKEND_TYPE: "postgres", POSTGRES_URL: `postgres://${user}@${host}:${port}/${database}` };
  }

  /** A server of `who` ("yardstick" or "service") for a shape. */
  async take(who, shape) {
    const key = who === "yardstick" ? who : JSON.stringify([shape.rules, shape.env, shape.store]);
    const kept = this.#kept.get(key);
    if (kept !== undefined) return { ...kept, isWarm: true };
    const store = who === "service" ? await this.#storeSettings(shape) : {};
    // A bench measures, it does not degrade: an answer that takes long counts as long.
    const env = { BENCH_RULES: shape.rules, STORE_DEADLINE: "10s", ...store, ...shape.env };
    const server = await startServer(KIND[who], { profile: this.#profile, env });
    if (who === "service" && shape.rules === "lease") await new Promise((r) => setTimeout(r, LEASES_AFTER_MS));
    if (this.#isKept) this.#kept.set(key, server);
    return { ...server, isWarm: false };
  }

  /** Ends a server, unless it is kept. */
  async giveBack(server) {
    if (!this.#isKept) await server.stop();
  }

  /** Ends the servers of a shape that nobody will ask for again. */
  async endShape() {
    for (const [key, server] of this.#kept) {
      if (key === "yardstick") continue;
      this.#kept.delete(key);
      await server.stop();
    }
  }

  async stop() {
    for (const server of this.#kept.values()) await server.stop();
    this.#kept.clear();
    await this.#redis?.stop();
    await this.#postgres?.stop();
  }
}
