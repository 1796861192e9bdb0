// Counters at a statsd server under the reference's names.

import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { StatsD } from "hot-shots";
import { describe, expect, test, vi } from "vitest";
import { CallCounts } from "../../src/operate/telemetry/observers.ts";
import { RateLimitedLog } from "../../src/operate/telemetry/rate-limited-log.ts";
import { LimitStatsBook } from "../../src/operate/telemetry/stats-book.ts";
import { StatsdExporter } from "../../src/operate/telemetry/statsd.ts";
import { closedWithTest, endWithTest } from "../support/ends.ts";
import { listen } from "../support/listen.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { startTestApp } from "../support/test-app.ts";

const RULES = `
domain: edge
descriptors:
  - key: user
    rate_limit: { requests_per_unit: 2, unit: hour }
  - key: ip
    value: 10.0.0.1
    rate_limit: { requests_per_unit: 2, unit: hour }
`;

const ignore = () => undefined;

/** Sums the counters in statsd's lines by name. */
class Sums {
  readonly values = new Map<string, number>();
  readonly gauges = new Map<string, number>();
  #rest = "";

  add(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      const [, name = "", value, kind] = /^(.*):(-?\d+)\|([cg])/.exec(line) ?? [];
      if (value === undefined) continue;
      if (kind === "g") this.gauges.set(name, Number(value));
      else this.values.set(name, (this.values.get(name) ?? 0) + Number(value));
    }
  }
}

/** A statsd server over UDP, and the settings that have counters sent to it. */
async function listenForStats() {
  const socket = closedWithTest(createSocket("udp4"));
  const sums = new Sums();
  socket.on("message", (message) => sums.add(`${message.toString()}\n`));
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  const env = {
    USE_STATSD: "true",
    STATSD_HOST: "127.0.0.1",
    STATSD_PORT: String(socket.address().port),
    STATSD_PROTOCOL: "udp",
  };
  return { sums, env };
}

type Sources = ConstructorParameters<typeof StatsdExporter>[1];

/** An exporter whose next flush by time is far away, and what it reads. */
function makeExporter(
  [statsdHost, statsdPort, statsdProtocol]: readonly [host: string, port: number, protocol: "tcp" | "udp"],
  more: Partial<Sources> = {},
) {
  const clock = new ManualClock();
  const log = new RateLimitedLog({ info: ignore, warn: ignore, error: ignore }, clock);
  const statsBook = new LimitStatsBook(0);
  const calls = new CallCounts(log);
  const reloads = () => ({ loads: 0, failures: 0 });
  const sources = { calls, reloads, statsBook, gauges: () => [], log, clock, ...more };
  const settings = { statsdHost, statsdPort, statsdProtocol, statsFlushIntervalMs: 3_600_000 };
  const exporter = new StatsdExporter({ ...settings, extraTags: new Map(), usesDogStatsd: false }, sources);
  endWithTest(() => exporter.close());
  return { exporter, statsBook, clock };
}

/** A statsd server over TCP; `port` 0 takes a free one. */
async function listenOverTcp(sums: Sums, port = 0) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("data", (data) => sums.add(data.toString()));
    socket.on("error", () => socket.destroy());
  });
  await once(server.listen(port, "127.0.0.1"), "listening");
  const stop = endWithTest(async () => {
    server.close();
    for (const socket of sockets) socket.destroy();
    await once(server, "close");
  });
  return { port: (server.address() as { port: number }).port, stop };
}

describe("statsd", () => {
  test("gets what moved, over UDP, with addresses kept whole and tags behind the name", async () => {
    const { sums, env } = await listenForStats();
    const app = await startTestApp(RULES, {
      ...env,
      STATS_FLUSH_INTERVAL: "20ms",
      EXTRA_TAGS: "zone:a,env:test",
    });
    for (let i = 0; i < 3; i++) await app.hit({ user: "a" });
    await app.hit({ ip: "10.0.0.1" });
    await app.ask({ domain: "nowhere.else", descriptors: [{}] });
    await app.stop();
    const name = (rest: string) => `ratelimit.service.${rest}.__env=test.__zone=a`;
    const got = () => Object.fromEntries(sums.values);
    await expect.poll(() => got()[name("rate_limit.edge.user.total_hits")]).toBe(3);
    expect(got()).toMatchObject({
      [name("rate_limit.edge.user.within_limit")]: 2,
      [name("rate_limit.edge.user.over_limit")]: 1,
      [name("rate_limit.edge.ip_10_0_0_1.total_hits")]: 1,
      [name("rate_limit.nowhere.else.domain_not_found")]: 1,
      [name("config_load_success")]: 1,
    });
  });

  test("gets what became of holds", async () => {
    const { sums, env } = await listenForStats();
    const rules = `domain: edge
descriptors:
  - { key: t, hold: { id: id, ttl: 1h }, rate_limit: { requests_per_unit: 99, unit: day, algorithm: fixed_window } }
`;
    const app = await startTestApp(rules, { ...env, STATS_FLUSH_INTERVAL: "20ms" });
    for (const id of ["a", "b", "c"]) await app.hit({ t: "x", id });
    for (const id of ["a", "a", "d"]) await app.hit({ t: "x", id, settle: "" });
    await app.stop();
    const got = () =>
      [...sums.values].flatMap(([name, value]) => (name.includes(".t.hold_") ? [[name.split(".").at(-1), value]] : []));
    await expect
      .poll(() => Object.fromEntries(got()))
      .toEqual({
        hold_opened: 3,
        hold_settlements: 1,
        hold_late_settlements: 1,
        hold_repeated_settlements: 1,
      });
  });

  // Promise(compatibility): Statsd gets every hit, also of removed rules and from its own outages, and nothing twice.
  test("gets each hit once, over UDP, though values are longer than a packet may be", async () => {
    const { sums, env } = await listenForStats();
    const rules =
      "domain: edge\ndescriptors:\n  - { key: user, detailed_metric: true, rate_limit: { requests_per_unit: 9, unit: hour } }\n";
    const app = await startTestApp(rules, { ...env, STATS_FLUSH_INTERVAL: "20ms" });
    for (let i = 0; i < 5; i++) await app.hit({ user: "x".repeat(65_000) });
    const hits = () => [...sums.values].filter(([name]) => name.endsWith(".total_hits"));
    await expect.poll(() => hits().map(([, value]) => value)).toEqual([5]);
    await app.hit({ user: "short" });
    await app.stop();
    await expect.poll(() => sums.values.get("ratelimit.service.rate_limit.edge.user_short.total_hits")).toBe(1);
    expect(hits().map(([name, value]) => [Buffer.byteLength(name) < 600, value])).toEqual([
      [true, 5],
      [true, 1],
    ]);
  });

  test("over UDP a packet that can't be sent is counted, and nothing is sent a second time", async () => {
    const increments = vi.spyOn(StatsD.prototype, "increment");
    // The kernel lets nobody send to a broadcast address who has not asked for that.
    const { exporter: statsd, statsBook } = makeExporter(["127.255.255.255", 9, "udp"]);
    statsBook.statsOf("edge", ["user"], "").totalHits = 5;
    statsd.flush();
    await expect.poll(() => statsd.errors).toBe(1);
    expect(increments.mock.calls).toEqual([["ratelimit.service.rate_limit.edge.user.total_hits", 5]]);
    statsd.flush();
    expect(increments.mock.calls).toHaveLength(1);
    increments.mockRestore();
  });

  // Promise(compatibility): Statsd gets every hit, also of removed rules and from its own outages, and nothing twice.
  test("gets every hit of a rule that a reload drops, once", async () => {
    const { sums, env } = await listenForStats();
    // The next flush by time is far away.
    const app = await startTestApp(RULES, { ...env, STATS_FLUSH_INTERVAL: "1h" });
    const name = (rule: string) => `ratelimit.service.rate_limit.edge.${rule}.total_hits`;
    await app.hit({ user: "a" });
    await app.hit({ ip: "10.0.0.1" });
    await app.writeRules({ "rules.yaml": RULES.replace("key: user", "key: person") });
    await app.app.reload();
    await app.hit({ person: "a" });
    await app.hit({ ip: "10.0.0.1" });
    await app.writeRules({ "rules.yaml": RULES });
    await app.app.reload();
    await app.hit({ user: "a" });
    await app.stop();
    await expect.poll(() => sums.values.get(name("user"))).toBe(2);
    expect([sums.values.get(name("person")), sums.values.get(name("ip_10_0_0_1"))]).toEqual([1, 2]);
  });

  test("gets calls that failed among the total, and what the local cache does, in the compatibility mode", async () => {
    const { sums, env } = await listenForStats();
    const { USE_STATSD: _, ...withoutSwitch } = env;
    const app = await startTestApp(RULES, {
      ...withoutSwitch,
      COMPATIBILITY_MODE: "true",
      LOCAL_CACHE_SIZE_IN_BYTES: "1000000",
      STATS_FLUSH_INTERVAL: "1h",
    });
    for (let i = 0; i < 4; i++) await app.hit({ user: "a" });
    await expect(app.ask({ domain: "" })).rejects.toMatchObject({ code: 3 });
    await app.stop();
    await expect.poll(() => sums.values.get("ratelimit_server.ShouldRateLimit.total_requests")).toBe(5);
    expect(sums.gauges.get("ratelimit.localcache.entryCount")).toBe(1);
    expect(sums.gauges.get("ratelimit.localcache.hitCount")).toBe(1);
    expect(sums.gauges.get("ratelimit.localcache.missCount")).toBe(3);
  });

  // Promise(compatibility): Statsd gets every hit, also of removed rules and from its own outages, and nothing twice.
  test("gets over TCP what it missed while it was away, at the start and later", async () => {
    const sums = new Sums();
    const first = await listenOverTcp(sums);
    await first.stop();
    const app = await startTestApp(RULES, {
      USE_STATSD: "true",
      STATSD_HOST: "127.0.0.1",
      STATSD_PORT: String(first.port),
      STATS_FLUSH_INTERVAL: "50ms",
    });
    const hits = () => sums.values.get("ratelimit.service.rate_limit.edge.user.total_hits");
    await app.hit({ user: "a" });
    await expect.poll(() => app.log.some((line) => line.includes("statsd does not accept counters"))).toBe(true);
    const second = await listenOverTcp(sums, first.port);
    await expect.poll(hits).toBe(1);
    await second.stop();
    await app.hit({ user: "a" });
    await listenOverTcp(sums, first.port);
    await expect.poll(hits).toBe(2);
    await app.stop();
    expect(hits()).toBe(2);
  });

  test("gets over TCP what rules counted that a reload dropped while it was away", async () => {
    const sums = new Sums();
    const first = await listenOverTcp(sums);
    await first.stop();
    // The next flush by time is far away.
    const app = await startTestApp(RULES, {
      USE_STATSD: "true",
      STATSD_HOST: "127.0.0.1",
      STATSD_PORT: String(first.port),
      STATS_FLUSH_INTERVAL: "1h",
    });
    const errors = async () =>
      Number(/^headgate_statsd_errors_total (\d+)/m.exec(await (await app.http("/metrics")).text())?.[1]);
    await app.hit({ user: "a" });
    for (const key of ["person", "human"]) {
      const before = await errors();
      await app.writeRules({ "rules.yaml": RULES.replace("key: user", `key: ${key}`) });
      await app.app.reload();
      await expect.poll(errors).toBeGreaterThan(before);
      await app.hit({ [key]: "a" });
    }
    await listenOverTcp(sums, first.port);
    await app.stop();
    const hits = (key: string) => sums.values.get(`ratelimit.service.rate_limit.edge.${key}.total_hits`);
    await expect.poll(() => ["user", "person", "human"].map(hits)).toEqual([1, 1, 1]);
  });

  describe("that accepts a connection over TCP and reads nothing", () => {
    const RULES_MAX = 20_000;
    const total = (sums: Sums) => [...sums.values].reduce((sum, [, value]) => sum + value, 0);

    /** A server whose connections are read once that is allowed, and an exporter with more to say than fits on the way. */
    async function stuck() {
      const sums = new Sums();
      const sockets: Socket[] = [];
      const server = createServer({ pauseOnConnect: true }, (socket) => {
        sockets.push(socket);
      });
      const port = await listen(server);
      const { exporter, statsBook, clock } = makeExporter(["127.0.0.1", port, "tcp"]);
      const move = () => {
        for (let i = 0; i < RULES_MAX; i++) statsBook.statsOf("edge", [`rule ${i} ${"x".repeat(480)}`], "").totalHits++;
      };
      const read = (socket: Socket | undefined) => socket?.on("data", (data) => sums.add(data.toString())).resume();
      return { sums, sockets, clock, exporter, move, read };
    }

    test("does not hold up the end", async () => {
      const { sockets, exporter, move } = await stuck();
      move();
      exporter.flush();
      await expect.poll(() => sockets.length).toBe(1);
      // Before, it never ended.
      await exporter.close();
    });

    // Promise(compatibility): A statsd server that reads nothing costs no memory, and does not hold up the end.
    test("costs no memory beyond one flush, and gets each hit once when it reads", async () => {
      const { sums, sockets, exporter, move, read } = await stuck();
      move();
      exporter.flush();
      await expect.poll(() => sockets.length).toBe(1);
      const increments = vi.spyOn(StatsD.prototype, "increment");
      for (let i = 0; i < 3; i++) {
        move();
        await sleep(100);
        exporter.flush();
      }
      expect(increments).not.toHaveBeenCalled();
      increments.mockRestore();
      read(sockets[0]);
      await expect.poll(() => total(sums), { timeout: 20_000 }).toBe(RULES_MAX);
      await expect
        .poll(
          () => {
            exporter.flush();
            return total(sums);
          },
          { timeout: 20_000 },
        )
        .toBe(4 * RULES_MAX);
    });

    test("gets a new connection after ten seconds, and everything over that", async () => {
      const { sums, sockets, clock, exporter, move, read } = await stuck();
      move();
      exporter.flush();
      await expect.poll(() => sockets.length).toBe(1);
      await sleep(100);
      exporter.flush();
      clock.advanceSeconds(10);
      exporter.flush();
      await expect.poll(() => sockets.length).toBe(2);
      read(sockets[1]);
      await expect.poll(() => total(sums), { timeout: 20_000 }).toBe(RULES_MAX);
      await exporter.close();
      expect(exporter.errors).toBe(1);
    });
  });
});
