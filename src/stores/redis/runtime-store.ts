// Limits at run time in Redis: a head, a list of the newest changes, and hashes of a bounded size, so that no command holds the server for
// long. All keys have one hash tag, so that one script (lua/runtime_limits.lua) can write them on a cluster, too.

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

/** Number of hashes: some 200 limits each if there are 100,000. */
const HASHES = 512;
/** Hashes that are read at once, and changes of the history. */
const HASHES_AT_ONCE = 8;
const EVENTS_AT_ONCE = 500;
/** Changes read before those that are wanted, because others append and so move the end from which they are counted. */
const EVENTS_BEFORE = 100;

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
  const [headKey, historyKey, hashKey, processesKey, reportsKey] = [
    "head",
    "history",
    "limits:",
    "processes",
    "reports",
  ].map((key) => prefix + key) as [string, string, string, string, string];
  const script = textOfRuntimeScript();
  const ask = async (name: string, ...args: readonly string[]): Promise<unknown> => {
    const node = nodeOf(`${prefix}head`);
    if (node?.connection === undefined)
      throw new StoreError("STORE_UNREACHABLE", node?.trouble() ?? "Redis can't be reached");
    try {
      return await node.connection.command(name, args);
    } catch (error) {
      throw new StoreError("STORE_COMMAND", node.describe(error), error);
    }
  };
  const write = async (changes: readonly RuntimeWrite[], lost = "", left = "") => {
    const keys = [headKey, historyKey, ...changes.map(({ key }) => `${hashKey}${hashOf(key)}`)];
    const values = changes.flatMap(({ key, value, expectedUs, atUs }) => [
      key,
      value,
      String(expectedUs ?? ""),
      String(atUs ?? ""),
    ]);
    const bounds = [String(limitsMax), String(RUNTIME_EVENTS_MAX), String(HASHES), hashKey];
    const reply = texts(
      await ask("eval", script, String(keys.length), ...keys, randomUUID(), ...bounds, lost, left, ...values),
    );
    const written = changes.map(({ key, value }, i) => readWritten(reply[i + 1] ?? "", key, value));
    return { head: readHead(reply[0] ?? ""), written };
  };
  const events = async (from: number, to: number) => texts(await ask("lrange", historyKey, String(from), String(to)));
  const forget = async (ids: readonly string[]) => {
    await ask("hdel", processesKey, ...ids);
    await ask("hdel", reportsKey, ...ids);
  };
  return {
    nowUs: () => {
      const node = nodeOf(`${prefix}head`);
      return node === undefined ? clock.nowUs() : node.serverTimeMs() * MICROS_PER_MILLI;
    },
    head: async () => readHead(textOrNone(await ask("get", headKey))),
    async changesAfter(version, head) {
      const found: ReturnType<typeof readEvent>[] = [];
      let newest = head.version;
      while (found.length < head.version - version) {
        const next = version + found.length + 1;
        const fromEnd = newest - next + 1;
        if (fromEnd > RUNTIME_EVENTS_MAX) return undefined;
        const from = fromEnd + EVENTS_BEFORE;
        const part = (await events(-from, -Math.max(1, from - EVENTS_AT_ONCE + 1))).map(readEvent);
        const known = found.length;
        for (const event of part) if (event.version === version + 1 + found.length) found.push(event);
        // Others have appended meanwhile, so that the end is further away. Otherwise it has another past.
        const gap = (part[0]?.version ?? 0) - next;
        if (found.length === known && gap <= 0) return undefined;
        if (gap > 0) newest += gap;
      }
      return found.map(({ kept }) => kept);
    },
    async *all() {
      for (let first = 0; first < HASHES; first += HASHES_AT_ONCE) {
        const parts = Array.from({ length: HASHES_AT_ONCE }, (_, i) => ask("hgetall", `${hashKey}${first + i}`));
        for (const part of await Promise.all(parts)) yield pairs(part).flatMap(readKept);
      }
    },
    write: (changes) => write(changes),
    async renew(head, count) {
      await write([], headText(head), String(count));
    },
    async history(key, countMax) {
      const found = [];
      for (let last = -1; found.length < countMax; last -= EVENTS_AT_ONCE) {
        const part = await events(last - EVENTS_AT_ONCE + 1, last);
        for (const event of part.map(readEvent).reverse()) if (event.kept.key === key) found.push(event);
        if (part.length < EVENTS_AT_ONCE) break;
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

/** FNV-1a: which hash a key lies in, for all processes. */
function hashOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % HASHES;
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
