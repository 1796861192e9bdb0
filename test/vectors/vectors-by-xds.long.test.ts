// The recorded answers of envoyproxy/ratelimit hold where rules come by a stream from a real control plane, too: one service
// for all cases with the same settings, and a new set for each case.

import { beforeAll, describe, expect, test } from "vitest";
import { resourcesOf } from "../support/files-as-resources.ts";
import { startRedis } from "../support/shared-stores.ts";
import { type SeenEvent, startXdsServer, xdsServerProgram } from "../support/xds-server.ts";
import { onRedis } from "./counter-stores.ts";
import { isMeant } from "./deviations.ts";
import { groupCases, needsOwnService, readCases } from "./recorded.ts";
import { type CaseRules, replayGroup } from "./replay.ts";

const REPLAY_MS_MAX = 240_000;
const program = xdsServerProgram();

// Faults and reloads of files are replayed with files; settings of files mean nothing here.
const all = readCases();
const cases = all.filter((one) => !needsOwnService(one) && resourcesOf(one.files ?? {}) !== undefined);
const results = new Map<string, readonly string[]>();

/** Rules from a control plane of its own. */
async function openControlPlane(files: Readonly<Record<string, string>>): Promise<CaseRules> {
  const plane = await startXdsServer(program ?? "");
  let version = 0;
  const serve = async (served: Readonly<Record<string, string>>) => {
    version++;
    await plane.serve({ version: String(version), resources: resourcesOf(served) ?? [] });
  };
  await serve(files);
  return {
    env: {
      CONFIG_TYPE: "GRPC_XDS_SOTW",
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${plane.port}`,
      CONFIG_GRPC_XDS_NODE_ID: "headgate-test",
      FORCE_START_WITHOUT_INITIAL_CONFIG: "true",
    },
    use: async (changed) => {
      await serve(changed);
      const isSent = (event: SeenEvent) => event.event === "response" && event.version === String(version);
      // In force, or refused, once it is answered.
      await plane.request(({ nonce }) =>
        plane.seen.some((event) => isSent(event) && "nonce" in event && event.nonce === nonce),
      );
    },
    stop: () => plane.stop(),
  };
}

describe.runIf(program !== undefined)("with rules from a control plane the service answers as recorded", () => {
  beforeAll(async () => {
    const store = onRedis(await startRedis());
    try {
      for (const group of groupCases(cases)) {
        const found = await replayGroup(group, store, openControlPlane);
        for (const [i, one] of group.entries()) results.set(one.name, found[i] ?? ["not replayed"]);
      }
    } finally {
      await store.stop();
    }
  }, REPLAY_MS_MAX);

  test("in most cases", () => {
    expect(cases.length).toBeGreaterThan(all.length / 3);
  });

  // Promise(compatibility): Under a control plane COMPATIBILITY_MODE answers as recorded, too.
  test.each(cases)("$name", ({ name }) => {
    expect(results.get(name)?.filter((line) => !isMeant(name, line))).toEqual([]);
  });
});
