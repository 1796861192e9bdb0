// What a call costs in this process from the bytes of a socket's read to the bytes of its write, without sockets and
// without a load generator, so that the figure holds on a machine that others use too. `node bench/micro/fast-lane.mjs`
// after a build; with --cpu-prof it shows where the time goes.

import { setImmediate as nextTurn } from "node:timers/promises";
import { median, printTable } from "../harness/report.mjs";
import { loadDist } from "../load/dist.mjs";
import { openService } from "../load/service.mjs";

const { SystemClock } = await loadDist("base/clock.js");
const { Connection } = await loadDist("../packages/fast-lane/dist/connection.js");
const { HpackEncoder } = await loadDist("../packages/fast-lane/dist/hpack/encoder.js");
const { FrameIntake } = await loadDist("../packages/fast-lane/dist/frame-intake.js");
const { Http2Server } = await loadDist("../packages/fast-lane/dist/http2-server.js");
const { writeFrameHead } = await loadDist("../packages/fast-lane/dist/sender.js");
const { Flag, FrameType, Setting } = await loadDist("../packages/fast-lane/dist/protocol.js");
const { SHOULD_RATE_LIMIT_PATH } = await loadDist("grpc/transport/load-proto.js");
const { UnaryCalls } = await loadDist("../packages/fast-lane/dist/grpc-call.js");

/** Calls in one read of the socket, as h2load sends them with 50 streams. */
const CALLS_PER_READ = 50;
const READS = 4_000;
const ROUNDS = 12;
const WARM_UP_ROUNDS = 3;
const MILLION = 1_000_000;
const OK_ANSWER = Uint8Array.of(0x08, 1, 0x12, 2, 0x08, 1);
// domain "edge", one descriptor, one entry tenant=acme, with the five bytes before a message.
const MESSAGE = Buffer.from("00000000180a0465646765121" + "00a0e0a0674656e616e74120461636d65", "hex");
const FIELDS = [
  [":method", "POST"],
  [":scheme", "http"],
  [":path", SHOULD_RATE_LIMIT_PATH],
  [":authority", "ratelimit:8081"],
  ["content-type", "application/grpc"],
  ["te", "trailers"],
];

function frame(type, flags, streamId, payload) {
  const head = Buffer.alloc(9);
  writeFrameHead(head, 0, payload.length, type, flags, streamId);
  return Buffer.concat([head, payload]);
}

/** A connection whose socket takes everything at once; `played` is told when the reads of a turn are written. */
function openConnection(handler) {
  const clock = new SystemClock();
  const observer = { handlerFailed: (path, error) => console.error(path, error), overloaded: () => undefined };
  const server = new Http2Server(
    {
      methods: [{ path: SHOULD_RATE_LIMIT_PATH, handler }],
      clock,
      observer,
      maxConcurrentStreams: 4_096,
      maxMessageBytes: 1_048_576,
      maxConnectionAgeMs: Number.POSITIVE_INFINITY,
      maxConnectionAgeGraceMs: 1_000,
      keepaliveMs: Number.POSITIVE_INFINITY,
      inFlightMax: 10_000,
    },
    [],
  );
  const written = [];
  const nothing = () => undefined;
  const socket = {
    write: (_bytes, done) => written.push(done),
    cork: nothing,
    uncork: nothing,
    pause: nothing,
    resume: nothing,
  };
  const connection = new Connection(server, socket, undefined);
  return { connection, intake: new FrameIntake(connection, new UnaryCalls(server)), written };
}

/** Four letters as a number, other ones for each number below a million; neighbours lie far from each other. */
function tenantOf(number) {
  const mixed = (number * 514_229) % 1_048_576;
  let letters = 0;
  for (let bits = 0; bits < 20; bits += 5) letters = letters * 256 + 64 + ((mixed >> bits) & 31);
  return letters;
}

function blockOf(encoder) {
  encoder.begin();
  for (const [name, value] of FIELDS) encoder.field(name, value);
  return Buffer.from(encoder.end());
}

/** Nanoseconds of CPU per call, the median of several rounds, whose calls name `keys` tenants in no order. */
async function measure(handler, keys) {
  const { connection, intake, written } = openConnection(handler);
  const encoder = new HpackEncoder(() => true);
  const call = (block) =>
    Buffer.concat([
      frame(FrameType.headers, Flag.endHeaders, 1, block),
      frame(FrameType.data, Flag.endStream, 1, MESSAGE),
    ]);
  const windows = frame(FrameType.settings, 0, 0, Buffer.from([0, Setting.initialWindowSize, 0x3f, 0xff, 0xff, 0xff]));
  intake.read(Buffer.concat([windows, call(blockOf(encoder))]), 0);
  const one = call(blockOf(encoder));
  const dataAt = one.length - MESSAGE.length - 9;
  const tenantAt = one.length - 4;
  const template = Buffer.concat(Array.from({ length: CALLS_PER_READ }, () => one));
  let streamId = 3;
  const rounds = [];
  for (let round = 0; round < ROUNDS; round++) {
    const before = process.cpuUsage();
    for (let read = 0; read < READS; read++) {
      // A socket reads into a new buffer every time.
      const bytes = Buffer.from(template);
      for (let i = 0; i < CALLS_PER_READ; i++, streamId += 2) {
        bytes.writeUInt32BE(streamId, i * one.length + 5);
        bytes.writeUInt32BE(streamId, i * one.length + dataAt + 5);
        bytes.writeUInt32BE(tenantOf((streamId >> 1) % keys), i * one.length + tenantAt);
      }
      connection.sender.window = 1_000_000_000;
      intake.read(bytes, 0);
      // Calls are served when all sockets of a turn were read.
      await nextTurn();
      for (const done of written.splice(0)) done();
    }
    const { user, system } = process.cpuUsage(before);
    rounds.push(((user + system) * 1_000) / (READS * CALLS_PER_READ));
  }
  if (connection.server.counts.unaryCalls !== 1 + ROUNDS * READS * CALLS_PER_READ)
    throw new Error("not every call was served");
  return Math.round(median(rounds.slice(WARM_UP_ROUNDS)));
}

const empty = await measure({ handle: (_message, _deadlineUs, reply) => reply.ok(OK_ANSWER) }, 1);
const hot = await measure(await openService(), 1);
const many = await measure(await openService(), MILLION);
printTable("a call from bytes to bytes, 50 per read", [
  { what: "fast lane, empty handler", "ns of CPU": empty },
  { what: "fast lane and the service on the memory store, hot key", "ns of CPU": hot },
  { what: "fast lane and the service on the memory store, a million keys", "ns of CPU": many },
]);
process.exit(0);
