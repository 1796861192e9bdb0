// The servers that a run measures. A full run starts one for every figure, so that what a process happens to compile differs
// between rounds as it does between deployments; a quick run keeps them.

import { makeCertificates } from "../harness/certificates.mjs";
import { CORE } from "../harness/pin.mjs";
import { clientFor, startPostgres } from "../harness/postgres.mjs";
import { startRedis } from "../harness/redis.mjs";
import { startCluster } from "../harness/redis-cluster.mjs";
import { startServer } from "./h2load.mjs";

/** A process leases once all others have counted it. */
const LEASES_AFTER_MS = 4_500;
const KIND = { yardstick: "yardstick", service: "service, fast lane", empty: "empty, fast lane" };

export class Servers {
  #isKept;
  #profile;
  #redis;
  #cluster;
  #postgres;
  #certificates;
  #kept = new Map();

  constructor({ isKept = false, profile = false } = {}) {
    this.#isKept = isKept;
    this.#profile = profile;
  }

  /** The server that keeps the buckets of a shape, which shapes share: its ports, and `pids` of all its processes now. */
  async store({ store }) {
    if (store === "redis") {
      this.#redis ??= await startRedis(CORE.redis);
      return this.#redis;
    }
    if (store === "cluster") {
      this.#cluster ??= await startCluster(CORE.redis);
      return this.#cluster;
    }
    if (store !== "postgres") return { ports: [], pids: [] };
    this.#postgres ??= await startPostgres(CORE.redis);
    return { ports: [this.#postgres.port], pids: this.#postgres.pids() };
  }

  // What tells a service, or what stands in for one, where its buckets are.
  async #storeSettings(shape) {
    const { ports } = await this.store(shape);
    const [first] = ports;
    const env = { BENCH_STORE_PORTS: ports.join(",") };
    if (shape.store === "redis") return { ...env, REDIS_URL: `127.0.0.1:${first}` };
    if (shape.store === "cluster") return { ...env, REDIS_URL: `redis-cluster://127.0.0.1:${first}` };
    if (shape.store !== "postgres") return {};
    const { host, port, user, database } = clientFor(first);
    return { ...env, BACKEND_TYPE: "postgres", POSTGRES_URL: `postgres://${user}@${host}:${port}/${database}` };
  }

  /** What callers and servers of a shape with `tls` ("server" or "mutual") need; undefined without. */
  tls({ tls }) {
    if (tls === undefined) return undefined;
    this.#certificates ??= makeCertificates();
    return { ...this.#certificates, isMutual: tls === "mutual" };
  }

  /** A server of `who` ("yardstick", "service", "empty" or "standIn", which the shape names) for a shape. */
  async take(who, shape) {
    const { rules, env: own, store: place, standIn, tls } = shape;
    const key = JSON.stringify(who === "yardstick" ? [who, tls] : [who, rules, own, place, standIn, tls]);
    const kept = this.#kept.get(key);
    if (kept !== undefined) return { ...kept, isWarm: true };
    const store = who === "yardstick" ? {} : await this.#storeSettings(shape);
    const secured = tls === undefined ? {} : { BENCH_TLS: JSON.stringify(this.tls(shape)) };
    // A bench measures, it does not degrade: an answer that takes long counts as long.
    const env = { BENCH_RULES: rules, STORE_DEADLINE: "10s", ...store, ...secured, ...own };
    const server = await startServer(KIND[who] ?? standIn, { profile: this.#profile, env });
    if (who === "service" && rules === "lease") await new Promise((r) => setTimeout(r, LEASES_AFTER_MS));
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
      if (key.startsWith('["yardstick"')) continue;
      this.#kept.delete(key);
      await server.stop();
    }
  }

  async stop() {
    for (const server of this.#kept.values()) await server.stop();
    this.#kept.clear();
    await this.#redis?.stop();
    await this.#cluster?.stop();
    await this.#postgres?.stop();
  }
}
