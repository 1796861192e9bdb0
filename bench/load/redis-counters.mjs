// What calls cost a Redis: its CPU time, its bytes, and how many script calls they came in, from its own INFO.

import { once } from "node:events";
import { connect } from "node:net";
import { cpuMicrosOf } from "../harness/cpu-time.mjs";

/** Counters of the Redis on `redisPort`, which runs as `redisPid`. */
export async function openRedisCounters({ redisPort, redisPid }) {
  const socket = connect({ port: redisPort, host: "127.0.0.1" });
  await once(socket, "connect");
  return {
    async read() {
      const cpuMicros = cpuMicrosOf(redisPid);
      socket.write("INFO everything\r\n");
      let text = "";
      while (!text.includes("# Keyspace")) text += (await once(socket, "data"))[0];
      const number = (pattern) => Number(text.match(pattern)?.[1] ?? 0);
      return {
        cpuMicros,
        bytesIn: number(/total_net_input_bytes:(\d+)/),
        bytesOut: number(/total_net_output_bytes:(\d+)/),
        scripts: number(/cmdstat_evalsha:calls=(\d+)/),
      };
    },
    /** What each of `calls` came to between two readings. */
    perCall(before, after, calls) {
      return Object.fromEntries(Object.keys(after).map((name) => [name, (after[name] - before[name]) / calls]));
    },
  };
}
