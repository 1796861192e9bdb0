// A Redis Cluster of the bench's own: three primaries that share the slots, in one folder that goes with them.

import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";
import { startRedis } from "./redis.mjs";
import { temporaryFolder } from "./temporary-folder.mjs";

const PRIMARIES = 3;
const SLOTS = 16_384;
const START_MS = 20_000;

/** Starts it, all nodes on `core` if given; resolves once every node says that all is well. */
export async function startCluster(core) {
  const folder = temporaryFolder();
  const nodes = await Promise.all(
    Array.from({ length: PRIMARIES }, (_, i) =>
      startRedis(core, [
        ...["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"],
        ...["--dir", folder, "--cluster-config-file", `nodes-${i}.conf`],
      ]),
    ),
  );
  const admins = nodes.map(({ port }) => new Redis(port, "127.0.0.1"));
  try {
    const first = (i) => Math.floor((i * SLOTS) / PRIMARIES);
    // Before any of them has met another one, which would give it an epoch.
    for (const [i, admin] of admins.entries()) await admin.cluster("SET-CONFIG-EPOCH", i + 1);
    for (const [i, admin] of admins.entries()) {
      await admin.cluster("ADDSLOTSRANGE", first(i), first(i + 1) - 1);
      for (const { port } of nodes) await admin.cluster("MEET", "127.0.0.1", port);
    }
    await whenWell(admins);
  } finally {
    for (const admin of admins) admin.disconnect();
  }
  return {
    ports: nodes.map(({ port }) => port),
    pids: nodes.map(({ pid }) => pid),
    stop: () => Promise.all(nodes.map((node) => node.stop())),
  };
}

async function whenWell(admins) {
  const end = performance.now() + START_MS;
  for (;;) {
    const infos = await Promise.all(admins.map((admin) => admin.cluster("INFO")));
    const known = (info) => info.includes("cluster_state:ok") && info.includes(`cluster_known_nodes:${PRIMARIES}`);
    if (infos.every(known)) return;
    if (performance.now() > end) throw new Error(`the cluster did not come about:\n${infos[0]}`);
    await sleep(50);
  }
}
