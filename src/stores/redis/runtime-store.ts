// Limits at run time in Redis: a head, a sorted set of the newest changes, and a hash, which is read in parts, so that no command holds the
// server for long. All keys have one hash tag, so that one script (lua/runtime_limits.lua) can write them on a cluster, too.

import { randomUUID } from "node:crypto";
import {
  headText,
  RUNTIME_EVENTS_MAX,
  type RuntimeStore,
  type RuntimeWrite,
  readEvent,
  readHead,
  readKept,
  readWritten,
} from "../runtime-store.ts";
import { Aside, type AsideOptions, textOrNone, texts } from "./aside.ts";
import { redisProcessRegister } from "./process-register.ts";
import { textOfRuntimeScript } from "./scripts.ts";

/** Limits, and changes of the history, that are read at once. */
const LIMITS_AT_ONCE = 1_000;
const EVENTS_AT_ONCE = 500;

interface RuntimeStoreOptions extends AsideOptions {
  /** Most limits, with ended and unset ones. */
  readonly limitsMax: number;
}

/** The store. */
export function redisRuntimeStore(options: RuntimeStoreOptions): RuntimeStore {
  const { keyPrefix, limitsMax } = options;
  const prefix = `${keyPrefix}{headgate:limits}:`;
  const keys = [`${prefix}head`, `${prefix}history`, `${prefix}limits`] as const;
  const [headKey, historyKey, limitsKey] = keys;
  const script = textOfRuntimeScript();
  const aside = new Aside(options, headKey);
  const ask = (name: string, ...args: readonly string[]) => aside.ask(name, ...args);
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
  return {
    ...redisProcessRegister(options),
    nowUs: () => aside.nowUs(),
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
  };
}
