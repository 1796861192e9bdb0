// What becomes of a stream that stands: its peer goes silent without a word, or certificates are renewed meanwhile. The peer is
// a real control plane (go-control-plane's), a relay in front of it does what networks do.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { runThrough } from "../../src/base/long-work.ts";
import { AdsStream, type ControlPlane, PINGS } from "../../src/rule-sources/xds/ads-stream.ts";
import { readDiscoveryAnswer } from "../../src/rule-sources/xds/discovery.ts";
import { Authority } from "../support/certificates.ts";
import { closedWithTest } from "../support/ends.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { startXdsServer, type XdsServer, type XdsServerOptions, xdsServerProgram } from "../support/xds-server.ts";

const program = xdsServerProgram();
const NODE = "headgate-test";
/** Quick enough for a test; the server is told to take it. A busy machine answers late, too. */
const QUICK = { everyMs: 250, answerMs: 3_000 };

/** What a stream said of itself. */
interface Heard {
  readonly versions: string[];
  ended: string | undefined;
}

describe.runIf(program !== undefined)("a stream to a control plane", () => {
  async function startPlane(options: XdsServerOptions): Promise<{ plane: XdsServer; relay: FaultProxy }> {
    const plane = await startXdsServer(program ?? "", options);
    const relay = await FaultProxy.start(plane.port);
    return { plane, relay };
  }

  /** Opens a stream through the relay, asks for the set, and takes in what comes, or refuses it. */
  function open(relay: FaultProxy, tls: ControlPlane["tls"] = undefined, pings = QUICK, refusal?: string): Heard {
    const heard: Heard = { versions: [], ended: undefined };
    const plane = {
      url: `localhost:${relay.port}`,
      nodeId: NODE,
      nodeMetadata: new Map(),
      headers: new Map(),
      bounds: { messageBytesMax: 1_000_000, resourcesMax: 10 },
      tls,
      programVersion: "test",
    };
    const listener = {
      connected: () => undefined,
      message: (bytes: Buffer) => {
        const { version, nonce } = runThrough(readDiscoveryAnswer(bytes, plane.bounds));
        heard.versions.push(version);
        stream.send({ version: refusal === undefined ? version : "", nonce, refusal });
      },
      ended: (why: string) => {
        heard.ended = why;
      },
    };
    const stream = closedWithTest(new AdsStream(plane, listener, pings));
    stream.send({ version: "", nonce: "", refusal: undefined });
    return heard;
  }

  const set = (version: string) => ({ version, resources: [{ name: "edge", domain: "edge" }] });

  // Promise(xds): A control plane that vanishes without closing its connection is noticed within six minutes.
  test.each(["black hole", "half-open"] as const)("ends when its peer has gone without a word (%s)", async (kind) => {
    const { plane, relay } = await startPlane({ pingsFromMs: 100 });
    await plane.serve(set("1"));
    const heard = open(relay);
    await expect.poll(() => heard.versions).toEqual(["1"]);
    // Several pings long: they are answered, so nothing happens.
    await sleep(4 * QUICK.everyMs);
    expect(heard.ended).toBeUndefined();
    await plane.serve(set("2"));
    await expect.poll(() => heard.versions).toEqual(["1", "2"]);
    relay.begin({ kind });
    await expect.poll(() => heard.ended).toBeDefined();
  });

  test("is not ended by a server that takes a ping every five minutes at most, and found dead within six", () => {
    expect(PINGS.everyMs).toBeGreaterThan(300_000);
    expect(PINGS.everyMs + PINGS.answerMs).toBeLessThan(360_000);
  });

  test("says why a set is refused, whatever characters are cut off", async () => {
    const { plane, relay } = await startPlane({});
    // Of two units each, so that any cut goes through one of them in one of the two.
    for (const begin of ["", "x"]) {
      await plane.serve(set(`with ${begin}`));
      open(relay, undefined, PINGS, begin + "\u{1f600}".repeat(10_000));
      const { error } = await plane.request((request) => request.error.startsWith(`${begin}\u{1f600}`));
      expect(error.length).toBeGreaterThan(1_000);
    }
  });

  // Promise(xds): Renewed certificates are used from the next stream on, and end no open stream.
  test("goes on with the certificates that it began with when they are renewed; the next one uses the new ones", async () => {
    const folder = temporaryFolder("headgate-xds-tls");
    const at = (name: string) => join(folder, name);
    const renew = (authority: Authority) => {
      for (const [who, name] of [
        ["server", "envoy-gateway"],
        ["client", "envoy-rate-limit"],
      ] as const) {
        const { cert, key } = authority.issue(name);
        writeFileSync(at(`${who}.crt`), cert);
        writeFileSync(at(`${who}.key`), key);
      }
      writeFileSync(at("ca.crt"), authority.cert);
    };
    renew(new Authority("old"));
    const { plane, relay } = await startPlane({
      tls: { cert: at("server.crt"), key: at("server.key"), ca: at("ca.crt") },
    });
    const tls = {
      caFile: at("ca.crt"),
      certFile: at("client.crt"),
      keyFile: at("client.key"),
      serverName: "envoy-gateway",
    };
    await plane.serve(set("1"));
    const first = open(relay, tls, PINGS);
    await expect.poll(() => first.versions).toEqual(["1"]);
    renew(new Authority("new"));
    // Both sides would now refuse each other's old certificate, but they have met already.
    await plane.serve(set("2"));
    await expect.poll(() => first.versions).toEqual(["1", "2"]);
    const next = open(relay, tls, PINGS);
    await expect.poll(() => next.versions).toEqual(["2"]);
    await plane.serve(set("3"));
    await expect
      .poll(() => [first.versions, next.versions])
      .toEqual([
        ["1", "2", "3"],
        ["2", "3"],
      ]);
    expect([first.ended, next.ended]).toEqual([undefined, undefined]);
    // A key that is half written opens no stream, and ends none.
    writeFileSync(at("client.key"), "-----BEGIN PRIVATE KEY-----\n");
    const broken = open(relay, tls, PINGS);
    await expect.poll(() => broken.ended).toBeDefined();
    expect(broken.versions).toEqual([]);
    expect([first.ended, next.ended]).toEqual([undefined, undefined]);
  });
});
