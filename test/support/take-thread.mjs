// A thread that takes from a store in shared memory again and again, as its worker data says.

import { workerData } from "node:worker_threads";

const { dist, shared, thread, hashKey, groups, counted, untilRefused, calls = Infinity } = workerData;
const load = (file) => import(new URL(file, dist));
const { useHashKey } = await load("engine/domain/key-bytes.js");
const { MemoryStore } = await load("stores/memory/memory-store.js");
const { SystemClock } = await load("engine/base/clock.js");
const { Mode, TakeGroup, Verdict } = await load("engine/domain/take.js");
const { CalendarWindows } = await load("engine/domain/calendar-windows.js");
const { OWN_LIMIT } = await load("engine/domain/limit.js");
const { LimitStats } = await load("engine/domain/stats.js");

useHashKey(Buffer.from(hashKey));
const counts = new Int32Array(counted);
const calendarOf = (edges) => edges && new CalendarWindows("", () => edges);
const limits = groups.map((asks) =>
  asks.map(({ limit }) => ({
    ...OWN_LIMIT,
    ...limit,
    calendar: calendarOf(limit.calendar),
    stats: new LimitStats(),
  })),
);

const store = new MemoryStore({ clock: new SystemClock(), shared: { store: shared, thread } });
const group = new TakeGroup();
let refused = 0;
for (let call = 0; refused < untilRefused && call < calls; call++) {
  const which = call % groups.length;
  group.reset();
  for (const [i, { key, cost, mode, holdId }] of groups[which].entries()) {
    const take = group.add(limits[which][i]);
    take.bucketKey = key;
    take.needKeyBytes();
    take.descriptor = i;
    take.cost = cost;
    take.mode = mode;
    if (mode === Mode.charge) group.hasCounters = group.stopsAtOver = true;
    // The same in a round of all groups, so that one of them settles what another has reserved.
    if (holdId !== undefined) take.holdId = `${holdId}-${thread}-${Math.floor(call / groups.length)}`;
  }
  store.take(group);
  const isAllowed = group.verdict === Verdict.allowed;
  if (!isAllowed) refused++;
  Atomics.add(counts, which * 2 + (isAllowed ? 0 : 1), 1);
}
await store.close();
