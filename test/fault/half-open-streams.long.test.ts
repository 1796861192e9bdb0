// Peers that keep the server waiting: streams whose message never comes, or whose answer nobody reads, on many connections, renewed again
// and again. They cost those peers their streams and connections, and nobody else anything.

import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { beforeAll, describe, expect, test } from "vitest";
import { Flag, FrameType, PREFACE, Setting } from "../../packages/fast-lane/src/protocol.ts";
import { HEALTH_SERVICE, SHOULD_RATE_LIMIT_PATH } from "../../src/grpc/transport/load-proto.ts";
import { Figures } from "../soak/figures.ts";
import { callFields, frameOf, messageOf, plainBlock, settingsOf } from "../support/http2-peer.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { askOnce, openClient } from "../support/test-app.ts";
import { until } from "./store-rig.ts";

const CONNECTIONS = 24;
/** Streams that each opens at once. Of grpc-js Node refuses those above 512, which costs a busy machine seconds. */
const STREAMS = { "fast-lane": 4_096, "grpc-js": 1_024 };
/** Streams that each connection opens beyond these, each RENEWED_MS; connections that are ended come again after as long. */
const MORE_STREAMS = 256;
const RENEWED_MS = 500;
/** Without a bound the first second fills every place. */
const ATTACK_MS = 3_000;
/** A call takes some ms; a busy machine needs seconds to read what the attackers send. */
const DEADLINE_MS = 20_000;
/** Until a busy machine has read 300 MB. */
const READ_MS_MAX = 90_000;
/** Without a bound grpc-js takes 7 KB for each of some 100,000 streams. */
const MORE_BYTES_MAX = 400_000_000;
const REQUEST = { domain: "edge", descriptors: [{ entries: [{ key: "remote_address", value: "a" }] }] };

const KINDS = [
  { kind: "no message", path: SHOULD_RATE_LIMIT_PATH, window: 65_535, body: () => Buffer.alloc(0) },
  {
    kind: "the first bytes of a message",
    path: SHOULD_RATE_LIMIT_PATH,
    window: 65_535,
    body: (id: number) => frameOf(FrameType.data, 0, id, Buffer.alloc(2)),
  },
  {
    kind: "no room for the answer",
    path: `/${HEALTH_SERVICE}/Check`,
    window: 0,
    body: (id: number) => frameOf(FrameType.data, Flag.endStream, id, messageOf("")),
  },
];

/** Connections that open streams and send `body` on each; they come again when they are ended. Returns what ends them. */
function attack(port: number, streamsMax: number, { path, window, body }: (typeof KINDS)[number]): () => void {
  const block = plainBlock(callFields(path));
  const streams = (first: number, count: number): Buffer =>
    Buffer.concat(
      Array.from({ length: count }, (_, i) => {
        const id = first + 2 * i;
        return Buffer.concat([frameOf(FrameType.headers, Flag.endHeaders, id, block), body(id)]);
      }),
    );
  // Made once: what the attackers need of the processor is not to be measured.
  const greeting = Buffer.concat([PREFACE, settingsOf([Setting.initialWindowSize, window])]);
  const begins = Buffer.concat([greeting, streams(1, streamsMax)]);
  const rounds = (2 * ATTACK_MS) / RENEWED_MS;
  const renewals = Array.from({ length: rounds }, (_, i) =>
    streams(2 * (streamsMax + i * MORE_STREAMS) + 1, MORE_STREAMS),
  );
  const sockets = new Set<Socket>();
  let isOver = false;
  const begin = (): void => {
    if (isOver) return;
    const socket = connect(port, "127.0.0.1", () => socket.write(begins)).resume();
    let round = 0;
    const timer = setInterval(() => socket.write(renewals[round++] ?? Buffer.alloc(0)), RENEWED_MS);
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("close", () => {
      clearInterval(timer);
      sockets.delete(socket);
      setTimeout(begin, RENEWED_MS);
    });
  };
  for (let i = 0; i < CONNECTIONS; i++) begin();
  return () => {
    isOver = true;
    for (const socket of sockets) socket.destroy();
  };
}

describe.each(["fast-lane", "grpc-js"] as const)("on %s", (transport) => {
  let service: ServiceProcess;
  beforeAll(async () => {
    service = await startService({ RULES_DIR: "deploy/rules", GRPC_TRANSPORT: transport });
  });

  // Promise(grpc): Streams that wait for their peer are bounded for all peers together, and cost only connections with many of them.
  test.each(KINDS)("streams with $kind cost only their own connections", async (kind) => {
    const before = await Figures.of(service);
    const early = openClient(`127.0.0.1:${service.grpcPort}`);
    await askOnce(early, REQUEST, DEADLINE_MS);
    const endAttack = attack(service.grpcPort, STREAMS[transport], kind);
    const untilMs = performance.now() + ATTACK_MS;
    const ask = async (): Promise<void> => {
      while (performance.now() < untilMs) await askOnce(early, REQUEST, DEADLINE_MS);
    };
    const askOnNewConnections = async (): Promise<void> => {
      while (performance.now() < untilMs) {
        const late = openClient(`127.0.0.1:${service.grpcPort}`, { "grpc.use_local_subchannel_pool": 1 });
        await askOnce(late, REQUEST, DEADLINE_MS);
        late.close();
      }
    };
    // A call that is not answered rejects here.
    await Promise.all([ask(), askOnNewConnections()]);
    const after = await Figures.of(service);
    const troubles = (figures: Figures) => figures.sum("headgate_grpc_troubles_total");
    // On a busy machine what they have sent may not be read yet.
    await until("attackers are counted", async () => troubles(await Figures.of(service)) > troubles(before));
    endAttack();
    expect(after.residentBytes - before.residentBytes).toBeLessThan(MORE_BYTES_MAX);
  });

  // Promise(grpc): Messages that never end are bounded for all peers together, and cost the connections with many that began first.
  test("messages that never end cost only connections with many of them", async () => {
    const client = openClient(`127.0.0.1:${service.grpcPort}`);
    // 300 MB in all.
    const part = messageOf(Buffer.alloc(4_194_304)).subarray(0, -20_000);
    const sessions = Array.from({ length: CONNECTIONS }, () => {
      const session = connectHttp2(`http://127.0.0.1:${service.grpcPort}`).on("error", () => undefined);
      for (let i = 0; i < 3; i++) {
        const stream = session.request(Object.fromEntries(callFields(SHOULD_RATE_LIMIT_PATH)));
        stream.on("error", () => undefined).write(part);
      }
      return session;
    });
    const troubles = async () =>
      (await Figures.of(service)).sum("headgate_grpc_troubles_total", 'trouble="partial_requests"');
    await until("attackers are counted", async () => (await troubles()) > 0, READ_MS_MAX);
    // Of several frames.
    const value = "a".repeat(60_000);
    const request = { domain: "edge", descriptors: [{ entries: [{ key: "remote_address", value }] }] };
    for (let i = 0; i < 20; i++) await askOnce(client, request, DEADLINE_MS);
    for (const session of sessions) session.destroy();
  });
});
