// Stores on which recorded cases are replayed: how the service reaches each, and how its counters are read and emptied.

import type { PostgresServer } from "../support/postgres-server.ts";
import type { RedisServer } from "../support/redis-server.ts";
import type { SharedServers } from "../support/shared-stores.ts";

/** A counter as it stands in a store; `ttl` is in seconds. */
export interface FoundCounter {
  readonly key: string;
  readonly value: string;
  readonly ttl: number;
}

/** A store under the service. What it lacks no case may ask for. */
export interface CounterStore {
  /** What points the service at it. */
  readonly env: Readonly<Record<string, string>>;
  /** How much longer than in Redis counters may live. */
  readonly lifetimeSlackS?: number;
  flush(): Promise<void>;
  /** True if a counter that was charged nothing leaves no trace. */
  readonly dropsZeros?: boolean;
  /** Undefined if they can't be seen from outside. */
  counters(): Promise<FoundCounter[] | undefined>;
  /** Runs a command of Redis whose second word is the key. */
  command?(words: readonly string[]): Promise<unknown>;
  kill?(): Promise<void>;
  restart?(): Promise<void>;
  stop(): Promise<void>;
}

/** Over Redis servers, however many. */
export function onRedis(servers: SharedServers): CounterStore {
  const all = async (work: (server: RedisServer) => Promise<unknown>) => {
    await Promise.all(servers.redis.map(work));
  };
  return {
    env: servers.env,
    flush: () => all((server) => server.flush()),
    counters: async () => (await Promise.all(servers.redis.map(countersOf))).flat(),
    command: async (words) => (await servers.serverOf(words[1] ?? "")).command(...words),
    kill: () => all((server) => server.kill()),
    restart: () => all((server) => server.restart()),
    stop: () => servers.stop(),
  };
}

/** Over PostgreSQL, whose keys are the same texts. */
export function onPostgres(servers: SharedServers): CounterStore {
  const { env, postgres } = servers;
  if (postgres === undefined) throw new Error("no PostgreSQL there");
  return {
    env,
    // Expiries are rounded up, so that most updates leave their index alone (`expiry` in sql/take_each.sql).
    lifetimeSlackS: 101,
    dropsZeros: true,
    flush: async () => {
      const [table] = await postgres.query("SELECT to_regclass('headgate.bucket') AS name");
      if (table?.name !== null) await postgres.query("TRUNCATE headgate.bucket");
    },
    counters: () => rowsOf(postgres),
    stop: () => servers.stop(),
  };
}

/** The memory of the process. */
export function inMemory(): CounterStore {
  return {
    env: { BACKEND_TYPE: "memory" },
    flush: async () => undefined,
    counters: async () => undefined,
    stop: async () => undefined,
  };
}

async function countersOf(redis: RedisServer): Promise<FoundCounter[]> {
  const names = ((await redis.command("KEYS", "*")) as string[]).filter((name) => !name.includes("{headgate:"));
  const found: FoundCounter[] = [];
  for (const key of names) {
    // The number of tags, which processes write again some time after a flush.
    if (key === "headgate:cluster-tags") continue;
    const value = String(await redis.command("GET", key));
    found.push({ key, value, ttl: Number(await redis.command("TTL", key)) });
  }
  return found;
}

async function rowsOf(postgres: PostgresServer): Promise<FoundCounter[]> {
  const rows = await postgres.query(
    `SELECT bucket_key, used::text, expires_us / 1000000 - extract(epoch FROM now())::bigint AS ttl FROM headgate.bucket
     WHERE bucket_key NOT LIKE '%headgate:%'`,
  );
  return rows.map(({ bucket_key: key, used, ttl }) => ({
    key: textOf(String(key)),
    // A charge counts 2^62 hits at most there, which is above every limit just as well.
    value: BigInt(String(used)) < 2n ** 62n ? String(used) : String(2n ** 63n - 1n),
    ttl: Number(ttl),
  }));
}

// In PostgreSQL bytes that are no printable ASCII stand as \x and two hex digits, a backslash as two.
function textOf(key: string): string {
  const bytes = key.replace(/\\(\\|x[0-9a-f]{2})/g, (_, code: string) =>
    code === "\\" ? code : String.fromCharCode(Number.parseInt(code.slice(1), 16)),
  );
  return Buffer.from(bytes, "latin1").toString("utf8");
}
