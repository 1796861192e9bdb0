// Valkey is as good as Redis: what holds the store and the scripts on Redis runs once more on a real valkey-server.

import { describe, expect, test } from "vitest";
import { valkeyServer } from "../support/debian-program.ts";
import { RedisServer } from "../support/redis-server.ts";

// Read by support/redis-server.ts, in this file's process alone.
process.env.REDIS_SERVER = valkeyServer();

// Promise(redis): Valkey, alone and as a cluster, keeps Redis's promises.
describe("on Valkey", async () => {
  test("the server is one", async () => {
    const server = await RedisServer.start();
    expect(String(await server.command("INFO", "server"))).toMatch(/^server_name:valkey/m);
  });

  await import("./redis-store.server.test.ts");
  await import("../property/lua-agrees.server.test.ts");
  await import("../property/cluster-agrees.server.test.ts");
  await import("../lua/take.test.ts");
  await import("../lua/damaged-state.test.ts");
});
