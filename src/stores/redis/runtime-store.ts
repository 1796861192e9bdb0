// Limits at run time in Redis: a hash, which is read in parts, so that no command holds the server for long, and the
// order of the newest changes. Both have one hash tag, so that one script (lua/runtime_limits.lua) can write them on a
// cluster, too.

import {
  headText,
  RUNTIME_CHANGES_MAX,
  RUNTIME_LIMITS_AT_ONCE,
  type RuntimeStore,
  readHead,
  readKept,
  readWritten,
} from "../runtime-store.ts";
import { Aside, type AsideOptions, textOrNone, texts } from "./aside.ts";
import { textOfRuntimeScript } from "./scripts.ts";

/** The store. It has at most `limitsMax` limits, ended and unset ones included. */
export function redisRuntimeStore(options: AsideOptions, limitsMax: number): RuntimeStore {
  const prefix = `${options.keyPrefix}{headgate:limits}:`;
  const [limitsKey, orderKey] = [`${prefix}callers`, `${prefix}changes`];
  const aside = new Aside(options, limitsKey);
  const script = textOfRuntimeScript();
  const run = async (...args: readonly string[]) =>
    texts(
      await aside.ask(
        "eval",
        script,
        "2",
        limitsKey,
        orderKey,
        String(limitsMax),
        String(RUNTIME_CHANGES_MAX),
        ...args,
      ),
    );
  return {
    nowUs: () => aside.nowUs(),
    head: async () => readHead(textOrNone(await aside.ask("hget", limitsKey, ""))),
    async changes(after, upTo) {
      const range = [`(${after}`, String(upTo), "WITHSCORES", "LIMIT", "0", String(RUNTIME_LIMITS_AT_ONCE)];
      const found = texts(await aside.ask("zrangebyscore", orderKey, ...range));
      const keys = found.filter((_, i) => i % 2 === 0);
      const limits = keys.length === 0 ? [] : texts(await aside.ask("hmget", limitsKey, ...keys));
      return {
        limits: limits.flatMap((text, i) => readKept(keys[i] as string, text)),
        upTo: keys.length < RUNTIME_LIMITS_AT_ONCE ? upTo : Number(found.at(-1)),
      };
    },
    async all(from) {
      const reply = await aside.ask("hscan", limitsKey, from || "0", "COUNT", String(RUNTIME_LIMITS_AT_ONCE));
      const [cursor, part]: unknown[] = Array.isArray(reply) ? reply : [];
      const next = textOrNone(cursor);
      const limits = texts(part).flatMap((key, i, all) => (i % 2 === 0 ? readKept(key, all[i + 1] ?? "") : []));
      return { limits, next: next === "0" ? undefined : next };
    },
    async write(changes) {
      const values = changes.flatMap(({ key, expectedUs = "", atUs, mark, value }) =>
        [key, expectedUs, atUs, mark, value].map(String),
      );
      const [head = "", ...written] = await run("", "", ...values);
      return { head: readHead(head), written: changes.map(({ key }, i) => readWritten(written[i] ?? "", key)) };
    },
    async repair(head, digest) {
      await run(headText(head), String(digest));
    },
  };
}
