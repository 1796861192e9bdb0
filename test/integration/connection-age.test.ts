// GRPC_MAX_CONNECTION_AGE at its ends: 0 means never, and no age is too long.

import { once } from "node:events";
import { connect } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { endWithTest } from "../support/ends.ts";
import { startTestApp } from "../support/test-app.ts";

/** The fast lane looks at ages once a second, grpc-js has a timer for each. */
const LOOKS_MS = 1_500;

describe.each(["fast-lane", "grpc-js"])("on %s", (GRPC_TRANSPORT) => {
  // Promise(grpc): A connection lives as long as GRPC_MAX_CONNECTION_AGE says.
  test.concurrent.each(["0s", "8760h"])("a connection is kept with an age of %s", async (age) => {
    const { goaways, isClosed } = await live({ GRPC_TRANSPORT, GRPC_MAX_CONNECTION_AGE: age });
    expect({ goaways, isClosed }).toEqual({ goaways: 0, isClosed: false });
  });

  test.concurrent("a connection is asked to end at its age", async () => {
    const { goaways } = await live({ GRPC_TRANSPORT, GRPC_MAX_CONNECTION_AGE: "100ms" });
    expect(goaways).toBeGreaterThan(0);
  });
});

/** What happens to a connection of a new process while its age is looked at. */
async function live(env: Readonly<Record<string, string>>) {
  const app = await startTestApp("domain: edge\ndescriptors: []\n", env);
  const session = connect(`http://127.0.0.1:${app.grpcPort}`);
  endWithTest(() => session.destroy());
  const seen = { goaways: 0, isClosed: false };
  session.on("goaway", () => seen.goaways++);
  await once(session, "connect");
  session.once("close", () => {
    seen.isClosed = true;
  });
  await sleep(LOOKS_MS);
  return { ...seen };
}
