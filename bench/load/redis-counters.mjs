// What calls cost a Redis, or the primaries of a cluster together: CPU time, bytes, and how many script calls they came in, from
// their own INFO.

import { once } from "node:events";
import { connect } from "node:net";
import { cpuMicrosOf } from "../harness/cpu-time.mjs";

/** Counters of the Redis servers on `redisPorts`, which run as `redisPids`. */
export async function openRedisCounters({ redisPorts, redisPids }) {
  const sockets = await Promise.all(
    redisPorts.map(async (port) => {
      const socket = connect({ port, host: "127.0.0.1" });
      await once(socket, "connect");
      return socket;
    }),
  );
  return {
    async read() {
      const cpuMicros = redisPids.map(cpuMicrosOf).reduce((sum, one) => sum + one, 0);
      const infos = await Promise.all(sockets.map(infoOf));
      const sum = (pattern) => infos.reduce((all, text) => all + Number(text.match(pattern)?.[1] ?? 0), 0);
      return {
        cpuMicros,
        bytesIn: sum(/total_net_input_bytes:(\d+)/),
        bytesOut: sum(/total_net_output_bytes:(\d+)/),
        scripts: sum(/cmdstat_evalsha:calls=(\d+)/),
      };
    },
    /** What each of `calls` came to between two readings. */
    perCall(before, after, calls) {
      return Object.fromEntries(Object.keys(after).map((name) => [name, (after[name] - before[name]) / calls]));
    },
  };
}

async function infoOf(socket) {
  socket.write("INFO everything\r\n");
  let text = "";
  while (!text.includes("# Keyspace")) text += (await once(socket, "data"))[0];
  return text;
}
