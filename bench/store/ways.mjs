// Three ways to keep a token bucket in Redis, behind one shape: `open` gives `take(user)`, `callsSent()`, `close()`.

import Redis from "ioredis";

/** Read the bucket, decide here, write it back: two calls, nothing holds the bucket still between them. */
export const readThenWrite = {
  title: "read, then write",
  async open({ port, limit }) {
    const redis = new Redis(port, "127.0.0.1");
    let calls = 0;
    return {
      async take(user) {
        const key = `plain:${user}`;
        const saved = await redis.hmget(key, "tokens", "at");
        calls++;
        const next = refillAndTake(saved, limit);
        if (!next.allowed) return false;
        await redis.hset(key, "tokens", next.tokens, "at", next.at);
        calls++;
        return true;
      },
      callsSent: () => calls,
      close: () => redis.quit(),
    };
  },
};

/** Optimistic lock: repeated until nobody else wrote in between. WATCH belongs to a connection, so each caller has one. */
export const watchMultiExec = {
  title: "WATCH/MULTI/EXEC",
  async open({ port, callers, limit }) {
    const idle = Array.from({ length: callers }, () => new Redis(port, "127.0.0.1"));
    const all = [...idle];
    let calls = 0;
    const attempt = async (redis, key) => {
      await redis.watch(key);
      const saved = await redis.hmget(key, "tokens", "at");
      calls += 2;
      const next = refillAndTake(saved, limit);
      if (!next.allowed) {
        await redis.unwatch();
        calls++;
        return false;
      }
      const done = await redis.multi().hset(key, "tokens", next.tokens, "at", next.at).exec();
      calls += 3;
      return done === null ? undefined : true;
    };
    return {
      async take(user) {
        const redis = idle.pop();
        try {
          for (;;) {
            const allowed = await attempt(redis, `watched:${user}`);
            if (allowed !== undefined) return allowed;
          }
        } finally {
          idle.push(redis);
        }
      },
      callsSent: () => calls,
      close: () => Promise.all(all.map((redis) => redis.quit())),
    };
  },
};

/** The service's own store: all takes of one turn of the event loop in one call of one script. */
export const headgateLua = {
  title: "Headgate's Lua",
  async open({ port, limit }) {
    const { openStoreForBench } = await import("./headgate-store.mjs");
    return openStoreForBench({ port, limit });
  },
};

function refillAndTake([savedTokens, savedAt], { ratePerSecond, burst }) {
  const at = Date.now();
  const elapsedMs = savedAt === null ? 0 : Math.max(0, at - Number(savedAt));
  const tokens =
    savedTokens === null ? burst : Math.min(burst, Number(savedTokens) + (elapsedMs * ratePerSecond) / 1000);
  return { allowed: tokens >= 1, tokens: tokens - 1, at };
}
