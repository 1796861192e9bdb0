// Limits at run time in Redis: a head, a sorted set of the newest changes, and a hash, which is read in parts, so that no command holds the
// server for long. All keys have one hash tag, so that one script (lua/runtime_limits.lua) can write them on a cluster, too.

import { randomUUID } from "node:crypto";
import type { Clock } from "../../engine/base/clock.ts";
import { StoreError } from "../../engine/base/errors.ts";
import { isRecord } from "../../engine/base/is-record.ts";
import { MICROS_PER_MILLI } from "../../engine/base/units.ts";
import {
  headText,
  processText,
  REPORTS_AT_ONCE,
  RUNTIME_EVENTS_MAX,
  RUNTIME_GONE_MS,
  type RuntimeStore,
  type RuntimeWrite,
  readEvent,
  readHead,
  readKept,
  readProcess,
  readWritten,
} from "../runtime-store.ts";
import type { RedisNode } from "./redis-node.ts";
import { textOfRuntimeScript } from "./scripts.ts";

/** Limits, and changes of the history, that are read at once. */
const LIMITS_AT_ONCE = 1_000;
const EVENTS_AT_ONCE = 500;

interface RuntimeStoreOptions {
  readonly keyPrefix: string;
  /** Most limits, with ended and unset ones. */
  readonly limitsMax: number;
  /** The node that keeps a key now, if it is known. */
  readonly nodeOf: (key: string) => RedisNode | undefined;
  readonly clock: Clock;
}

/** The store. */
export function redisRuntimeStore({ keyPrefix, limitsMax, nodeOf, clock }: RuntimeStoreOptions): RuntimeStore {
  const prefix = `${keyPrefix}{headgate:limits}:`;
  const keys = [`${prefix}head`, `${prefix}history`, `${prefix}limits`] as const;
  const [headKey, historyKey, limitsKey] = keys;
  const [processesKey, reportsKey] = [`${prefix}processes`, `${prefix}reports`];
  const script = textOfRuntimeScript();
  const ask = async (name: string, ...args: readonly string[]): Promise<unknown> => {
    const node = nodeOf(headKey);
    if (node?.connection === undefined)
      throw new StoreError("STORE_UNREACHABLE", node?.trouble() ?? "Redis can't be reached");
    try {
      return await node.connection.command(name, args);
    } catch (error) {
      throw new StoreError("STORE_COMMAND", node.describe(error), error);
    }
  };
  const write = async (changes: readonly RuntimeWrite[], lost = "") => {
    const values = changes.flatMap(({ key, value, expectedUs, atUs }) => [
      key,
      value,
      String(expectedUs ?? ""),
      String(atUs ?? ""),
    ]);
    const bounds = [String(limitsMax), String(RUNTIME_EVENTS_MAX)];
    const reply = texts(await ask("eval", script, "3", ...keys, randomUUID(), ...bounds, lost, ...values));
    const written = changes.map(({ key, value }, i) => readWritten(reply[i + 1] ?? "", key, value));
    return { head: readHead(reply[0] ?? ""), written };
  };
  const events = async (name: string, ...range: readonly string[]) =>
    texts(await ask(name, historyKey, ...range)).map(readEvent);
  const forget = async (ids: readonly string[]) => {
    await ask("hdel", processesKey, ...ids);
    await ask("hdel", reportsKey, ...ids);
  };
  return {
    nowUs: () => {
      const node = nodeOf(headKey);
      return node === undefined ? clock.nowUs() : node.serverTimeMs() * MICROS_PER_MILLI;
    },
    head: async () => readHead(textOrNone(await ask("get", headKey))),
    async changesAfter(version, head) {
      const found: ReturnType<typeof readEvent>[] = [];
      while (found.length < head.version - version) {
        const last = version + found.length;
        const part = await events("zrangebyscore", `(${last}`, "+inf", "LIMIT", "0", String(EVENTS_AT_ONCE));
        if (part[0]?.version !== last + 1) return undefined;
        found.push(...part);
      }
      return found.map(({ kept }) => kept);
    },
    async *all() {
      let cursor = "0";
      do {
        const reply = await ask("hscan", limitsKey, cursor, "COUNT", String(LIMITS_AT_ONCE));
        const [next, part]: unknown[] = Array.isArray(reply) ? reply : [];
        cursor = textOrNone(next);
        yield texts(part).flatMap((key, i, all) => (i % 2 === 0 ? readKept([key, all[i + 1] ?? ""]) : []));
      } while (cursor !== "0");
    },
    write: (changes) => write(changes),
    async renew(head) {
      await write([], headText(head));
    },
    async history(key, countMax) {
      const found = [];
      for (let from = "+inf"; found.length < countMax; ) {
        const part = await events("zrevrangebyscore", from, "-inf", "LIMIT", "0", String(EVENTS_AT_ONCE));
        found.push(...part.filter(({ kept }) => kept.key === key));
        if (part.length < EVENTS_AT_ONCE) break;
        from = `(${part.at(-1)?.version}`;
      }
      return found.slice(0, countMax);
    },
    async beat(own) {
      const nowMs = Math.floor(this.nowUs() / MICROS_PER_MILLI);
      const added = own && (await ask("hset", processesKey, own.id, `${nowMs} ${processText(own)}`));
      const all = pairs(await ask("hgetall", processesKey));
      const gone = all.filter(([, text]) => Number(text.split(" ", 1)[0]) < nowMs - RUNTIME_GONE_MS);
      if (gone.length > 0) await forget(gone.map(([id]) => id));
      const live = all.filter((process) => !gone.includes(process));
      return {
        all: live.map(([id, text]) => readProcess(id, text.slice(text.indexOf(" ") + 1))),
        isNew: Number(added) === 1,
      };
    },
    async publish(id, report) {
      await ask("hset", reportsKey, id, report);
      await ask("pexpire", reportsKey, String(RUNTIME_GONE_MS));
    },
    async published() {
      const ids = (await this.beat(undefined)).all.filter(({ name }) => name !== "").map(({ id }) => id);
      const reports: string[] = [];
      for (let i = 0; i < ids.length; i += REPORTS_AT_ONCE)
        reports.push(...texts(await ask("hmget", reportsKey, ...ids.slice(i, i + REPORTS_AT_ONCE))));
      return reports.filter((report) => report !== "");
    },
    leave: (id) => forget([id]),
  };
}

function texts(reply: unknown): string[] {
  return Array.isArray(reply) ? reply.map(textOrNone) : [];
}

function textOrNone(reply: unknown): string {
  return Buffer.isBuffer(reply) ? reply.toString() : "";
}

/** A hash, which ioredis makes an object of. */
function pairs(reply: unknown): (readonly [string, string])[] {
  return isRecord(reply) ? Object.entries(reply).map(([key, text]) => [key, textOrNone(text)] as const) : [];
}
