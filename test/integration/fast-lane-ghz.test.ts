// ghz, a load generator on grpc-go, against the fast lane: many connections, many calls, every one of them answered OK. What
// to call it learns from the files in proto/ or by reflection.

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { TlsFiles } from "../../src/grpc/transport/tls-files.ts";
import type { UnaryHandler } from "../../src/grpc/unary.ts";
import { Authority } from "../support/certificates.ts";
import { closedWithTest } from "../support/ends.ts";
import { type FastLaneRig, startFastLaneRig } from "../support/fast-lane-rig.ts";
import { goTool } from "../support/go-tool.ts";

const ghz = goTool("github.com/bojand/ghz/cmd/ghz@v0.93.0");
const PROTO = resolve(import.meta.dirname, "../../proto");
const FILES = [`--import-paths=${PROTO}`, `--proto=${resolve(PROTO, "envoy/service/ratelimit/v3/rls.proto")}`];
const METHOD = "envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit";
const REQUEST = { domain: "edge", descriptors: [{ entries: [{ key: "tenant", value: "acme" }] }] };
/** overall_code: OK. */
const answersOk: UnaryHandler = { handle: (_message, _deadlineUs, reply) => reply.ok(Uint8Array.of(8, 1)) };
const CALLS = 3_000;

let rig: FastLaneRig;

/** How many calls ended with each status. */
async function statuses(...more: string[]): Promise<unknown> {
  const args = [`--call=${METHOD}`, `--total=${CALLS}`, "--concurrency=50", "--connections=5", "--format=json"];
  const all = [...args, `--data=${JSON.stringify(REQUEST)}`, ...more, `127.0.0.1:${rig.server.port}`];
  const { stdout } = await promisify(execFile)(ghz ?? "", all, { maxBuffer: 64 * 1024 * 1024 });
  return (JSON.parse(stdout) as { statusCodeDistribution: unknown }).statusCodeDistribution;
}

describe.skipIf(ghz === undefined)("every call of ghz is answered OK", () => {
  test("with what it learns by reflection", async () => {
    rig = await startFastLaneRig(answersOk);
    expect(await statuses("--insecure")).toEqual({ OK: CALLS });
    expect(rig.server.counts.unaryCalls).toBe(CALLS);
    expect(rig.server.counts.streams).toBeGreaterThan(0);
  });

  // Promise(grpc): Other people's clients are served: grpc-go's and ghz.
  test("over TLS", async () => {
    const authority = new Authority();
    const files = { ...authority.issue("headgate.test"), clientCaFile: undefined, clientName: undefined };
    const tls = closedWithTest(new TlsFiles(files, { renewed: () => undefined, refused: () => undefined }));
    rig = await startFastLaneRig(answersOk, { tls });
    expect(await statuses(`--cacert=${authority.certFile}`, "--cname=headgate.test", ...FILES)).toEqual({ OK: CALLS });
  });
});
