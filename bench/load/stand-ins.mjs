// Handlers of ShouldRateLimit that do at the store what others do for a call, and nothing else: what their calls cost the
// store is what Headgate's cost is held to.

import { connect } from "node:net";
import pg from "pg";
import { clientFor } from "../harness/postgres.mjs";
import { loadDist } from "./dist.mjs";

/** OK for one descriptor on the wire. */
export const OK_ANSWER = Uint8Array.of(0x08, 1, 0x12, 2, 0x08, 1);

/** Connections to each server: REDIS_POOL_SIZE of envoyproxy/ratelimit, and as many. */
const POOL = 10;
/** Bytes at the end of the message that tell the bucket, as frames.mjs writes them. */
const KEY_BYTES = 7;
const UPDATE_CONNECTIONS = 4;
/** As the rule "minute" of rules.mjs. */
const WINDOW_SECONDS = 60;

/**
 * INCRBY and EXPIRE for each call, together, on a connection that has nothing else under way: what envoyproxy/ratelimit sends.
 * `ports` are one Redis's, or those of a cluster's primaries, which share the slots evenly.
 */
export async function openIncrements(ports) {
  const { keySlot, SLOTS } = await loadDist("stores/redis/cluster-tags.js");
  const pools = ports.map((port) => new Pool(port));
  return {
    handle(message, _deadlineUs, reply) {
      const key = `edge_tenant_${textOf(message)}_${windowStart()}`;
      const slot = keySlot(key);
      const pool = pools.findLast((_, i) => slot >= Math.floor((i * SLOTS) / pools.length));
      const size = `$${key.length}\r\n${key}\r\n`;
      pool.ask(`*3\r\n$6\r\nINCRBY\r\n${size}$1\r\n1\r\n*3\r\n$6\r\nEXPIRE\r\n${size}$2\r\n${WINDOW_SECONDS}\r\n`, () =>
        reply.ok(OK_ANSWER),
      );
    },
  };
}

/** One UPDATE for all calls of a turn, of one row each: as little as PostgreSQL can be asked to do for exact counts. */
export async function openUpdates(port) {
  const clients = await Promise.all(
    Array.from({ length: UPDATE_CONNECTIONS }, async () => {
      const client = new pg.Client(clientFor(port));
      await client.connect();
      // As Headgate's sessions; its tables are in the write-ahead log, too.
      await client.query("SET synchronous_commit = off");
      return client;
    }),
  );
  await clients[0].query(
    "CREATE TABLE IF NOT EXISTS counts (name text PRIMARY KEY, hits bigint NOT NULL) WITH (fillfactor = 50)",
  );
  const idle = [...clients];
  let waiting = [];
  const send = async () => {
    if (waiting.length === 0 || idle.length === 0) return;
    const client = idle.pop();
    const calls = waiting;
    waiting = [];
    const counts = new Map();
    for (const { name } of calls) counts.set(name, (counts.get(name) ?? 0) + 1);
    // In the order of the names, so that no two statements wait for each other.
    const names = [...counts.keys()].sort();
    await client.query({ name: "count", text: COUNT, values: [names, names.map((name) => counts.get(name))] });
    idle.push(client);
    for (const { reply } of calls) reply.ok(OK_ANSWER);
    await send();
  };
  return {
    handle(message, _deadlineUs, reply) {
      if (waiting.length === 0) setImmediate(() => void send());
      waiting.push({ name: `edge_tenant_${textOf(message)}`, reply });
    },
  };
}

const COUNT = `INSERT INTO counts SELECT * FROM unnest($1::text[], $2::bigint[])
  ON CONFLICT (name) DO UPDATE SET hits = counts.hits + excluded.hits RETURNING name, hits`;

function windowStart() {
  const seconds = Math.floor(Date.now() / 1_000);
  return seconds - (seconds % WINDOW_SECONDS);
}

function textOf(message) {
  return Buffer.from(message.buffer, message.byteOffset + message.length - KEY_BYTES, KEY_BYTES).toString("latin1");
}

/** Connections of which each has one question under way; whoever finds none idle waits in line. */
class Pool {
  #idle = [];
  #waiting = [];

  constructor(port) {
    for (let i = 0; i < POOL; i++) this.#open(port);
  }

  ask(text, then) {
    const one = this.#idle.pop();
    if (one === undefined) this.#waiting.push({ text, then });
    else this.#send(one, text, then);
  }

  #send(one, text, then) {
    one.onReply = then;
    one.socket.write(text, "latin1");
  }

  #open(port) {
    const one = { socket: connect({ port, host: "127.0.0.1", noDelay: true }), onReply: undefined, lines: 0 };
    one.socket.on("data", (chunk) => {
      if (chunk[0] === 0x2d) throw new Error(`Redis refused: ${chunk}`);
      for (const byte of chunk) if (byte === 0x0a) one.lines++;
      // Two replies, a number each.
      if (one.lines < 2) return;
      one.lines = 0;
      const { onReply } = one;
      const next = this.#waiting.shift();
      if (next === undefined) this.#idle.push(one);
      else this.#send(one, next.text, next.then);
      onReply();
    });
    this.#idle.push(one);
  }
}
