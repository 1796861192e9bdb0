// What a soak runs on: a real store, service processes, a proxy before each of them and one before the store. Carries out the
// deeds and faults of a schedule.

import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { canFakeClocks, FakeClock } from "../support/fake-clock.ts";
import { FaultProxy, type Random } from "../support/fault-proxy.ts";
import type { Deed, Fault, Stage } from "../support/fault-schedule.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { RedisServer } from "../support/redis-server.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { BAD_RULES, rulesText, SHARED_RULES, SYNC_PERIOD } from "./rules.ts";

export const STORE_NAMES = ["memory", "redis", "postgres"] as const;
export type StoreName = (typeof STORE_NAMES)[number];

/** The first process is never ended, so that its memory and what it holds open can be watched from start to end. */
const PROCESSES = 2;

const SERVICE_DEEDS: readonly Deed["kind"][] = ["good rules", "bad rules", "restart", "crash"];
const REDIS_DEEDS: readonly Deed["kind"][] = ["scripts flushed", "data flushed", "connections killed"];
const STORE_DEEDS: readonly Deed["kind"][] = ["store hangs", "store crashes"];

/** What a soak on that store can stage here. */
export function stageOf(store: StoreName): Stage {
  const deeds = [...SERVICE_DEEDS];
  if (store !== "memory") deeds.push(...STORE_DEEDS);
  if (store === "redis") deeds.push(...REDIS_DEEDS);
  if (store === "redis" && canFakeClocks()) deeds.push("clock steps");
  return { processes: PROCESSES, deeds, hasStoreNetwork: store !== "memory" };
}

/** What has happened that may add to what is granted. */
export class Happened {
  losses = 0;
  outages = 0;
  ends = 0;
  stepsBack = 0;
  secondsForward = 0;
}

/** One service process with the proxy that its callers go through. */
export interface StagedService {
  process: ServiceProcess;
  readonly proxy: FaultProxy;
}

export interface StageHooks {
  /** Before a process is ended; resolves when its callers rest and its figures are read. */
  readonly beforeEnd: (index: number) => Promise<void>;
  /** After it was started again; resolves when its callers ask again. */
  readonly afterStart: (index: number) => Promise<void>;
}

/** Everything that runs. */
export class SoakStage {
  readonly services: StagedService[] = [];
  readonly happened = new Happened();
  readonly store: StoreName;
  readonly #clock: FakeClock | undefined;
  #rulesDir = "";
  #revision = 0;
  #redis: RedisServer | undefined;
  #postgres: PostgresServer | undefined;
  #storeProxy: FaultProxy | undefined;

  private constructor(store: StoreName) {
    this.store = store;
    this.#clock = store === "redis" && canFakeClocks() ? new FakeClock() : undefined;
  }

  static async open(store: StoreName, random: Random): Promise<SoakStage> {
    const stage = new SoakStage(store);
    stage.#rulesDir = await mkdtemp(join(tmpdir(), "headgate-soak-"));
    await stage.#writeRules(rulesText(0));
    await writeFile(join(stage.#rulesDir, "shared.yaml"), SHARED_RULES);
    if (store === "redis") stage.#redis = await RedisServer.start([], undefined, stage.#clock?.env);
    if (store === "postgres") stage.#postgres = await PostgresServer.start();
    const port = stage.#redis?.port ?? stage.#postgres?.port;
    if (port !== undefined) stage.#storeProxy = await FaultProxy.start(port, random);
    for (let i = 0; i < PROCESSES; i++) {
      const process = await stage.#startService();
      stage.services.push({ process, proxy: await FaultProxy.start(process.grpcPort, random) });
    }
    return stage;
  }

  /** Begins a fault; the promise's function ends it. */
  async begin({ where, what }: Fault, hooks: StageHooks): Promise<() => Promise<void>> {
    if (where === undefined) return this.#do(what as Deed, hooks);
    const proxies = where === "store" ? [this.#storeProxy] : this.services.map(({ proxy }) => proxy);
    if (where === "store") this.happened.outages++;
    for (const proxy of proxies) proxy?.begin(what as Parameters<FaultProxy["begin"]>[0]);
    return async () => {
      for (const proxy of proxies) proxy?.end();
    };
  }

  async close(): Promise<void> {
    for (const { process, proxy } of this.services) {
      await proxy.stop();
      await process.stop();
    }
    await this.#storeProxy?.stop();
    await this.#redis?.stop();
    await this.#postgres?.stop();
    this.#clock?.close();
    await rm(this.#rulesDir, { recursive: true, force: true });
  }

  async #do(deed: Deed, hooks: StageHooks): Promise<() => Promise<void>> {
    const over = async () => undefined;
    switch (deed.kind) {
      case "good rules":
        await this.#writeRules(rulesText(++this.#revision));
        return over;
      case "bad rules":
        await this.#writeRules(BAD_RULES);
        return () => this.#writeRules(rulesText(++this.#revision));
      case "restart":
      case "crash":
        await this.#replaceService(Math.max(1, deed.process), deed.kind === "crash", hooks);
        return over;
      case "store hangs":
        this.happened.outages++;
        (this.#redis ?? this.#postgres)?.pause();
        return async () => (this.#redis ?? this.#postgres)?.resume();
      case "store crashes":
        this.happened.outages++;
        this.happened.losses++;
        await (this.#redis ?? this.#postgres)?.kill();
        return async () => (this.#redis ?? this.#postgres)?.restart();
      case "clock steps":
        this.#stepClock(deed.byMs);
        return over;
      default:
        await this.#disturbRedis(deed.kind);
        return over;
    }
  }

  async #disturbRedis(kind: Deed["kind"]): Promise<void> {
    if (kind === "scripts flushed") await this.#redis?.command("SCRIPT", "FLUSH");
    if (kind === "connections killed") {
      this.happened.outages++;
      await this.#redis?.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    }
    if (kind === "data flushed") {
      this.happened.losses++;
      await this.#redis?.flush();
    }
  }

  #stepClock(byMs: number): void {
    if (byMs < 0) this.happened.stepsBack++;
    else this.happened.secondsForward += byMs / 1_000;
    this.#clock?.set((this.#clock?.offsetMs ?? 0) + byMs);
  }

  async #replaceService(index: number, isCrash: boolean, hooks: StageHooks): Promise<void> {
    const service = this.services[index];
    if (service === undefined) return;
    await hooks.beforeEnd(index);
    this.happened.ends++;
    if (this.store === "memory") this.happened.losses++;
    if (isCrash) service.process.signal("SIGKILL");
    else await service.process.stop();
    service.process = await this.#startService();
    service.proxy.retarget(service.process.grpcPort);
    service.proxy.cutAll();
    await hooks.afterStart(index);
  }

  #startService(): Promise<ServiceProcess> {
    const port = this.#storeProxy?.port ?? 0;
    const store: Record<string, string> =
      this.store === "redis"
        ? { REDIS_URL: `127.0.0.1:${port}` }
        : this.store === "postgres"
          ? { POSTGRES_URL: `postgres://headgate@127.0.0.1:${port}/postgres` }
          : {};
    return startService({
      RULES_DIR: this.#rulesDir,
      RULES_POLL_INTERVAL: "500ms",
      SHUTDOWN_GRACE: "2s",
      STORE_DEADLINE: "40ms",
      STORE_PATIENCE: "40ms",
      SYNC_PERIOD,
      ...store,
    });
  }

  // Put in place whole, as an editor or a ConfigMap does.
  async #writeRules(text: string): Promise<void> {
    const path = join(this.#rulesDir, "soak.yaml");
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
  }
}
