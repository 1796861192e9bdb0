// What a soak runs on: a real store, service processes, a proxy before each of them and one before the store. Carries out the
// deeds and faults of a schedule.

import { rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FaultProxy, type Random } from "../support/fault-proxy.ts";
import type { Deed, Fault, Stage } from "../support/fault-schedule.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { BAD_RULES, rulesText, SHARED_RULES } from "./rules.ts";
import { deedsOn, Happened, openSoakStore, type SoakStore, type StoreName } from "./soak-stores.ts";

/** Of which the first is never ended (test/support/fault-schedule.ts). */
const PROCESSES = 2;

const SERVICE_DEEDS: readonly Deed["kind"][] = ["good rules", "bad rules", "restart", "crash"];
/** What a soak on that store can stage here. */
export function stageOf(store: StoreName): Stage {
  const hasStoreNetwork = store === "redis" || store === "postgres";
  return { processes: PROCESSES, deeds: [...SERVICE_DEEDS, ...deedsOn(store)], hasStoreNetwork };
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
  #rulesDir = "";
  #revision = 0;
  #server: SoakStore | undefined;
  #storeProxy: FaultProxy | undefined;

  private constructor(store: StoreName) {
    this.store = store;
  }

  static async open(store: StoreName, random: Random): Promise<SoakStage> {
    const stage = new SoakStage(store);
    stage.#rulesDir = temporaryFolder("headgate-soak");
    await stage.#writeRules(rulesText(0));
    await writeFile(join(stage.#rulesDir, "shared.yaml"), SHARED_RULES);
    stage.#server = await openSoakStore(store);
    const port = stage.#server?.port;
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
    await this.#server?.stop();
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
        await this.#replaceService(deed.process, deed.kind === "crash", hooks);
        return over;
      default:
        return (await this.#server?.do(deed, this.happened)) ?? over;
    }
  }

  async #replaceService(index: number, isCrash: boolean, hooks: StageHooks): Promise<void> {
    const service = this.services[index];
    if (service === undefined) return;
    await hooks.beforeEnd(index);
    if (this.store === "memory") this.happened.losses++;
    if (isCrash) service.process.signal("SIGKILL");
    else await service.process.stop();
    service.process = await this.#startService();
    service.proxy.retarget(service.process.grpcPort);
    service.proxy.cutAll();
    await hooks.afterStart(index);
  }

  #startService(): Promise<ServiceProcess> {
    return startService({
      RULES_DIR: this.#rulesDir,
      SHUTDOWN_GRACE: "2s",
      STORE_DEADLINE: "40ms",
      STORE_PATIENCE: "40ms",
      ...this.#server?.settings(this.#storeProxy?.port ?? 0),
    });
  }

  // Put in place whole, as an editor or a ConfigMap does.
  async #writeRules(text: string): Promise<void> {
    const path = join(this.#rulesDir, "soak.yaml");
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
  }
}
