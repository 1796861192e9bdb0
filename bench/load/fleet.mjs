// What a fleet takes, worked out from measured figures: processes, Redis shards, bytes. Each process is filled to half of what
// it can do, each shard to seven tenths of its core. docs/performance.md says what the arithmetic leaves out.

/** Shares of a core that are planned with. */
export const FILL = { process: 0.5, shard: 0.7 };
/** Kinds of calls, by the shape that was measured. */
const SHAPE_OF = {
  memory: "memory, 100,000 keys, uniform",
  exact: "Redis, exact, 10,000 keys",
  lease: "Redis, hot key, lease",
  refused: "Redis, hot key, refused",
};
/** What calls a fleet gets: shares by kind. */
const MIXES = [
  { name: "memory, each key at one process", shares: { memory: 1 } },
  { name: "all exact", shares: { exact: 1 } },
  { name: "a fifth exact, 70 % leased, a tenth refused", shares: { exact: 0.2, lease: 0.7, refused: 0.1 } },
  { name: "all leased or refused", shares: { lease: 0.9, refused: 0.1 } },
];
const RATES = [100_000, 10_000_000];
const SHARDS_MOST = 4_096;
/** Hash tags of a Redis Cluster, which is what several shards are, for each of them: a script call is for one tag. */
const TAGS_PER_SHARD = 4;

/** Whether a run has all that plans are made of. */
export function canPlan({ shapes, tails = [] }) {
  const hasShapes = Object.values(SHAPE_OF).every((name) => shapes.some((shape) => shape.name === name));
  return hasShapes && tails.some(({ name }) => name === SHAPE_OF.exact);
}

/**
 * Rows for every mix and rate. `shapes` and `tails` are of a run of bench:load, `redisCost` of store/redis-cost.mjs: what a take
 * costs Redis by how many travel together.
 */
export function planFleets({ shapes, tails }, redisCost) {
  const { perCall, perTake } = scriptCost(redisCost);
  const costOf = (together) => perTake + perCall / together;
  const half = tails.find(({ name }) => name === SHAPE_OF.exact);
  // Takes of one turn of the event loop, which travel to one Redis in one call.
  const takesPerTurn = 1 / half.redis.scripts;
  return RATES.flatMap((rate) =>
    MIXES.map(({ name, shares }) => plan({ rate, name, shares, shapes, costOf, takesPerTurn })),
  );
}

function plan({ rate, name, shares, shapes, costOf, takesPerTurn }) {
  const kinds = Object.entries(shares).map(([kind, share]) => ({
    share,
    kind,
    row: shapes.find((shape) => shape.name === SHAPE_OF[kind]),
  }));
  const seconds = kinds.reduce((sum, { share, row }) => sum + share / row.perSecond, 0);
  // Rounded before it is rounded up: the sum of shares is seldom exactly 1.
  const processes = Math.ceil(Number(((rate * seconds) / FILL.process).toFixed(6)));
  const sum = (of) => rate * kinds.reduce((all, { share, row }) => all + share * of(row), 0);
  const exactRate = rate * (shares.exact ?? 0);
  const takes = Math.max(1, takesPerTurn * (shares.exact ?? 0));
  // What leases and remembered refusals ask of Redis in between; measured, and small.
  const otherMicros =
    rate *
    kinds.reduce((all, { kind, share, row }) => all + (kind === "exact" ? 0 : share * (row.redis?.cpuMicros ?? 0)), 0);
  const { shards, together } = shardsFor({ exactRate, otherMicros, takes, costOf });
  return {
    rate,
    name,
    processes,
    shards,
    together,
    callerBytes: sum((row) => row.bytesSentPerCall + row.bytesReadPerCall),
    redisBytes: sum(({ redis }) => (redis === undefined ? 0 : redis.bytesIn + redis.bytesOut)),
  };
}

// One server gets a turn's takes in one call, a cluster's in one per hash tag, each with its own cost: the least number of
// shards that carries all of it.
function shardsFor({ exactRate, otherMicros, takes, costOf }) {
  if (exactRate + otherMicros === 0) return { shards: 0, together: 0 };
  for (let shards = 1; shards <= SHARDS_MOST; shards++) {
    const places = shards === 1 ? 1 : shards * TAGS_PER_SHARD;
    const calls = places * (1 - (1 - 1 / places) ** takes);
    const together = takes / calls;
    const cores = (exactRate * costOf(together) + otherMicros) / 1e6;
    if (cores <= shards * FILL.shard) return { shards, together };
  }
  return { shards: Number.NaN, together: 1 };
}

/**
 * Microseconds of Redis's CPU for a script call and for each take in it, from the two ends of what was measured: one take in a call
 * at a Redis as busy as a shard is planned to be, and the cheapest number of takes.
 */
export function scriptCost(redisCost) {
  const { dear } = busyShard(redisCost);
  const points = redisCost.map((row) => [Number(row["takes per call"]), Number(row["us of Redis' CPU"])]);
  const [many, cheap] = points.reduce((best, point) => (point[1] < best[1] ? point : best));
  const perCall = (dear - cheap) / (1 - 1 / many);
  return { perCall, perTake: dear - perCall };
}

/** Of the rows of many processes, the busiest that is not above what a shard is filled to: CPU per call of one take, and its rate. */
export function busyShard(redisCost) {
  const rows = redisCost.filter(({ processes, "of its core": share }) => processes > 1 && Number(share) <= FILL.shard);
  const row = rows.at(-1);
  if (row === undefined) throw new Error("redis-cost: no row of many processes is below what a shard is filled to");
  return { dear: Number(row["us of Redis' CPU"]), rate: row["takes/s"], share: Number(row["of its core"]) };
}
