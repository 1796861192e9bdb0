// What a control plane can't do to the process, whatever it sends: each of these sets is small on the wire, comes very often, or is of
// another type, which a real one never sends.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { RATE_LIMIT_TYPE } from "../../src/rule-sources/xds/discovery.ts";
import { type RawPlane, startRawPlane } from "../support/raw-plane.ts";
import { resourceBytes } from "../support/resources.ts";
import { startService } from "../support/service-process.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";
import { bytesField } from "../support/wire.ts";

const settings = (port: number) => ({
  CONFIG_TYPE: "GRPC_XDS_SOTW",
  CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${port}`,
  FORCE_START_WITHOUT_INITIAL_CONFIG: "true",
});

async function start(first: Buffer): Promise<{ plane: RawPlane; app: TestApp }> {
  const plane = await startRawPlane(first);
  const app = await startTestApp({}, settings(plane.port));
  return { plane, app };
}

const EMPTY_RESOURCE = bytesField(2, Buffer.alloc(0));

function answer(version: string, resources: Buffer, typeUrl = ""): Buffer {
  return Buffer.concat([bytesField(1, version), resources, bytesField(4, typeUrl), bytesField(5, "nonce")]);
}

// Promise(xds): A set that is too large is rejected before anything is made of it, however small it was packed.
describe("a set is rejected, and the control plane gets the reason,", () => {
  test.each([
    {
      of: "100,000 empty resources",
      bytes: answer("7", Buffer.alloc(200_000, EMPTY_RESOURCE)),
      why: "expected at most 65536 resources, got 100000",
    },
    {
      of: "30 million empty resources",
      bytes: answer("7", Buffer.alloc(60_000_000, EMPTY_RESOURCE)),
      why: "expected at most 65536 resources, got 30000000",
    },
    {
      of: "more than 32 MiB",
      bytes: answer("7", bytesField(2, Buffer.alloc(33_554_432))),
      why: "expected a set of at most 33554432 bytes (XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES), got 33554449",
    },
    {
      of: "a version of 8 MB",
      bytes: answer("7".repeat(8_000_000), Buffer.alloc(0)),
      why: "expected a version of at most 1024 bytes, got 8000000",
    },
  ])("$of", async ({ bytes, why }) => {
    const { plane, app } = await start(bytes);
    await expect
      .poll(() => plane.requests[1])
      .toMatchObject({ response_nonce: "nonce", error_detail: { message: why } });
    const config = await (await app.http("/config")).text();
    expect(config).toContain(why);
    expect(config.length).toBeLessThan(100_000);
  });
});

/** Resources of a domain each, with so many descriptors without a key, of two bytes each. */
function emptyDescriptors(resources: number, descriptors: number): Buffer {
  const type = bytesField(1, Buffer.from(RATE_LIMIT_TYPE));
  const inEach = Buffer.alloc(2 * descriptors, bytesField(3, Buffer.alloc(0)));
  const all = Array.from({ length: resources }, (_, i) => {
    const name = Buffer.from(`d${i}`);
    return bytesField(
      2,
      Buffer.concat([type, bytesField(2, Buffer.concat([bytesField(1, name), bytesField(2, name), inEach]))]),
    );
  });
  return answer("7", Buffer.concat(all));
}

/** Of the whole process; 120 MiB of it is there before any set. Without the bound each of these sets takes gigabytes. */
const PEAK_MIB_MAX = 640;

// Promise(xds): The messages inside all resources of a set are bounded together; a set beyond the bound is rejected in bounded memory.
describe("a set in which nothing is too large by itself is rejected, in bounded memory,", () => {
  const tooMany = /^resource d\d+: error: more than 2000000 nodes/;
  const noKey = /^resource d0: descriptors\[0\]\.key: error: the rule's key is missing or empty\n/;
  test.each([
    { resources: 1, descriptors: 5_000_000, why: tooMany },
    { resources: 60, descriptors: 200_000, why: tooMany },
    { resources: 30_000, descriptors: 400, why: tooMany },
    { resources: 60_000, descriptors: 1, why: noKey },
  ])("of $resources resources with $descriptors descriptors each", async ({ resources, descriptors, why }) => {
    const plane = await startRawPlane(answer("first", Buffer.alloc(0)));
    const service = await startService(settings(plane.port));
    plane.send(emptyDescriptors(resources, descriptors));
    const refusal = () => plane.requests.at(-1)?.error_detail?.message ?? "none yet";
    await expect.poll(refusal, { timeout: 60_000 }).toMatch(why);
    const peakKib = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${service.pid}/status`, "utf8"))?.[1];
    expect(Number(peakKib) / 1_024).toBeLessThan(PEAK_MIB_MAX);
  });
});

test.each([
  { what: "refused", resources: bytesField(2, bytesField(1, Buffer.from("a foreign type"))) },
  { what: "good", resources: Buffer.alloc(0) },
])("a hundred $what sets a second, each different, write few lines and are counted", async ({ what, resources }) => {
  const { plane, app } = await start(answer("first", Buffer.alloc(0)));
  const before = app.log.length;
  const sets = 200;
  for (let number = 0; number < sets; number++) {
    // Sets of another version are other sets.
    plane.send(answer(`v${number}`, resources));
    await sleep(10);
  }
  await expect.poll(() => plane.requests.at(-1)?.response_nonce).toBe("nonce");
  const { rules } = (await (await app.http("/config")).json()) as {
    rules: { control_plane: { answers: number; refusals: number } };
  };
  expect(rules.control_plane.answers).toBeGreaterThan(sets / 2);
  expect(rules.control_plane.refusals).toBeGreaterThanOrEqual(what === "refused" ? 5 : 0);
  expect(rules.control_plane.refusals).toBeLessThan(what === "refused" ? 30 : 1);
  expect(app.log.length - before).toBeLessThan(30);
});

test("an empty answer of another type is refused, and takes no rules away", async () => {
  const value = resourceBytes({
    name: "edge",
    domain: "edge",
    descriptors: [{ key: "user", rate_limit: { unit: "HOUR", requests_per_unit: 1 } }],
  });
  const resource = bytesField(2, Buffer.concat([bytesField(1, RATE_LIMIT_TYPE), bytesField(2, value)]));
  const { plane, app } = await start(answer("1", resource, RATE_LIMIT_TYPE));
  await expect.poll(() => plane.requests.at(-1)?.version_info).toBe("1");
  const other = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
  plane.send(answer("2", Buffer.alloc(0), other));
  const message = `expected resources of type ${RATE_LIMIT_TYPE}, got ${other}`;
  await expect.poll(() => plane.requests.at(-1)?.error_detail).toMatchObject({ message });
  const codes = [await app.hit({ user: "a" }), await app.hit({ user: "a" })].map(({ overall_code }) => overall_code);
  expect(codes).toEqual(["OK", "OVER_LIMIT"]);
});
