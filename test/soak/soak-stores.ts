// The real stores that a soak runs on, and what can be done to each of them.

import { canFakeClocks, FakeClock } from "../support/fake-clock.ts";
import type { Deed } from "../support/fault-schedule.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { ClusterRig } from "../support/redis-cluster.ts";
import { SentinelRig } from "../support/redis-sentinel.ts";
import { RedisServer } from "../support/redis-server.ts";

export const STORE_NAMES = ["memory", "redis", "postgres", "sentinel", "cluster"] as const;
export type StoreName = (typeof STORE_NAMES)[number];

/** What has happened that may add to what is granted. */
export class Happened {
  losses = 0;
  outages = 0;
  stepsBack = 0;
  secondsForward = 0;
}

/** A store that runs. */
export interface SoakStore {
  /** Port that a proxy can stand before; undefined where servers name each other, past any proxy. */
  readonly port: number | undefined;
  /** Settings of a service that reaches it by that port. */
  settings(port: number): Readonly<Record<string, string>>;
  /** Does something to it; the promise's function ends that. */
  do(deed: Deed, happened: Happened): Promise<() => Promise<void>>;
  stop(): Promise<void>;
}

const NO_STORE_DEEDS: readonly Deed["kind"][] = [];

/** What can be done to a store of that name here. */
export function deedsOn(store: StoreName): readonly Deed["kind"][] {
  if (store === "memory") return NO_STORE_DEEDS;
  const deeds: Deed["kind"][] = ["store hangs", "store crashes"];
  if (store === "redis") {
    deeds.push("scripts flushed", "data flushed", "connections killed");
    if (canFakeClocks()) deeds.push("clock steps");
  }
  if (store === "sentinel" || store === "cluster") deeds.push("store fails over");
  if (store === "cluster") deeds.push("slots move");
  return deeds;
}

/** Starts the store; undefined for memory, which each process has for itself. */
export async function openSoakStore(store: StoreName): Promise<SoakStore | undefined> {
  switch (store) {
    case "memory":
      return undefined;
    case "redis":
      return openRedis();
    case "postgres":
      return openPostgres();
    case "sentinel":
      return openSentinel();
    case "cluster":
      return openCluster();
  }
}

const over = async (): Promise<void> => undefined;

async function openRedis(): Promise<SoakStore> {
  const clock = canFakeClocks() ? new FakeClock() : undefined;
  const server = await RedisServer.start([], undefined, clock?.env);
  return {
    port: server.port,
    settings: (port) => ({ REDIS_URL: `127.0.0.1:${port}` }),
    async do(deed, happened) {
      if (deed.kind === "scripts flushed") await server.command("SCRIPT", "FLUSH");
      else if (deed.kind === "data flushed") {
        happened.losses++;
        await server.flush();
      } else if (deed.kind === "connections killed") {
        happened.outages++;
        await server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
      } else if (deed.kind === "clock steps") {
        if (deed.byMs < 0) happened.stepsBack++;
        else happened.secondsForward += deed.byMs / 1_000;
        clock?.set(clock.offsetMs + deed.byMs);
      } else return hangOrCrash(server, deed, happened);
      return over;
    },
    stop: () => server.stop(),
  };
}

async function openPostgres(): Promise<SoakStore> {
  const server = await PostgresServer.start();
  return {
    port: server.port,
    settings: (port) => ({ POSTGRES_URL: `postgres://headgate@127.0.0.1:${port}/postgres` }),
    do: (deed, happened) => hangOrCrash(server, deed, happened),
    stop: () => server.stop(),
  };
}

async function hangOrCrash(
  server: RedisServer | PostgresServer,
  deed: Deed,
  happened: Happened,
): Promise<() => Promise<void>> {
  happened.outages++;
  if (deed.kind === "store hangs") {
    server.pause();
    return async () => server.resume();
  }
  happened.losses++;
  await server.kill();
  return () => server.restart();
}

async function openSentinel(): Promise<SoakStore> {
  const rig = await SentinelRig.start();
  const [sentinel] = rig.sentinels;
  return {
    port: undefined,
    settings: () => ({ REDIS_URL: `redis-sentinel://127.0.0.1:${sentinel?.port ?? 0}/${rig.primaryName}` }),
    async do(deed, happened) {
      happened.outages++;
      // What was paid and not yet copied is forgotten with the primary.
      happened.losses++;
      const primary = await rig.primary();
      if (deed.kind === "store fails over") {
        await rig.failOver();
        return over;
      }
      if (deed.kind === "store hangs") primary.pause();
      else await primary.kill();
      return async () => {
        if (deed.kind === "store crashes") await rig.whenFailedOver(primary);
        await rig.heal();
      };
    },
    stop: () => rig.stop(),
  };
}

async function openCluster(): Promise<SoakStore> {
  const rig = await ClusterRig.start();
  return {
    port: undefined,
    settings: () => {
      const ports = rig.nodes.map(({ port }) => `127.0.0.1:${port}`).join(",");
      return { REDIS_URL: `redis-cluster://${ports}` };
    },
    async do(deed, happened) {
      const slot = "slot" in deed ? deed.slot : 0;
      const owner = await rig.ownerOf(slot);
      if (deed.kind === "slots move") {
        const to = await rig.ownerOf((slot + SLOTS / 2) % SLOTS);
        await rig.moveSlot(slot, to, 2);
        return over;
      }
      happened.outages++;
      happened.losses++;
      if (deed.kind === "store fails over") {
        await rig.failOver(owner);
        return () => rig.whenWell();
      }
      if (deed.kind === "store hangs") owner.pause();
      else await owner.kill();
      return async () => {
        if (deed.kind === "store hangs") owner.resume();
        else {
          await rig.whenTakenOver(owner);
          await owner.restart();
        }
        await rig.whenWell();
      };
    },
    stop: () => rig.stop(),
  };
}

const SLOTS = 16_384;
