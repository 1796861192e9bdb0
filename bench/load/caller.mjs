// A load generator for what h2load can't send: keys, deadlines and traces that differ in every call, and calls at a given
// rate, each timed from when it was due, sent or not: a server that stands still makes later calls late, and they count
// (coordinated omission). Plain sockets and prepared frames (frames.mjs), a process of its own:
//   node bench/load/caller.mjs '{"port":8081,"path":"/…/ShouldRateLimit","connections":4,"streams":50,"seconds":2}'
// Prints one line of JSON: calls, answers by kind, latencies in microseconds, how late the caller itself was, bytes per call,
// and shares of a core: a caller that uses all of its own without a rate has measured itself.

import { setImmediate as nextTurn } from "node:timers/promises";
import { cpuMicrosOf } from "../harness/cpu-time.mjs";
import { frame, OPENING, PAIRS, templateOf, writeCall } from "./frames.mjs";
import { openRedisCounters } from "./redis-counters.mjs";
import { openSocket } from "./sockets.mjs";

const SPOTS = 8_192;
const BUCKET_US = 5;
const settings = {
  message: "hot",
  vary: "",
  keys: 1,
  spread: "uniform",
  connections: 4,
  streams: 50,
  warmUpSeconds: 1,
  seconds: 2,
  /** Calls per second in all, sent when they are due; 0 sends the next call when one is answered. */
  rate: 0,
  /** Connections beside the others that ask a thousand times a second and read no answer. */
  slowConnections: 0,
  /** Ports and processes of the Redis servers whose counters are read; none without any. */
  redisPorts: [],
  redisPids: [],
  /** Processes of the store whose CPU time counts. */
  storePids: [],
  /** Certificates, as server.mjs takes them; without them no TLS. */
  tls: undefined,
  ...JSON.parse(process.argv[2]),
};
const templates = (PAIRS[settings.message] ?? [settings.message]).map((message) =>
  templateOf({ ...settings, message }),
);
const bytesMost = Math.max(...templates.map(({ first }) => first.bytes.length));
const dataMost = Math.max(...templates.map(({ dataLength }) => dataLength));
/** Rounds from the first of a pair to the second, which is sent when the first is answered: no more calls than this are under way. */
const PAIR_ROUNDS = settings.streams;
const newTimes = () => new Uint32Array(400_000);
const tally = {
  calls: 0,
  allowed: 0,
  overLimit: 0,
  errors: 0,
  sumUs: 0,
  times: newTimes(),
  timesFromSending: newTimes(),
  ownLateness: newTimes(),
};
let counts = false;

const nextKey = settings.spread === "zipf" ? zipfKeys(settings.keys) : uniformKeys(settings.keys);

function uniformKeys(count) {
  let seed = 88_675_123;
  return () => {
    seed ^= seed << 13;
    seed ^= seed >>> 17;
    seed ^= seed << 5;
    return (seed >>> 0) % count;
  };
}

// Keys as a table of samples: the first key comes twice as often as the second, three times as often as the third.
function zipfKeys(count) {
  const samples = Uint32Array.from({ length: 1 << 20 }, () => Math.floor((count + 1) ** Math.random()) - 1);
  let at = 0;
  return () => samples[at++ & 1_048_575];
}

/** One connection: sends calls, counts answers. */
class Caller {
  constructor(socket, index) {
    this.socket = socket;
    this.index = index;
    this.nextId = 1;
    this.inFlight = 0;
    this.window = 65_535;
    this.rest = Buffer.alloc(0);
    // By stream, for a server may answer several calls at once, frame by frame.
    this.dueAtMs = new Float64Array(SPOTS);
    this.sentAtMs = new Float64Array(SPOTS);
    this.codes = new Uint8Array(SPOTS);
    /** Times at which calls were due that had to wait for a stream. */
    this.due = [];
    socket.on("data", (chunk) => this.read(chunk));
  }

  fill(atMs) {
    const wanted = settings.rate > 0 ? this.due.length : settings.streams;
    const count = Math.min(wanted, settings.streams - this.inFlight, Math.floor(this.window / dataMost));
    if (count <= 0) return;
    const out = Buffer.allocUnsafe(count * bytesMost);
    const sentMs = performance.now();
    let at = 0;
    for (let i = 0; i < count; i++) {
      const id = this.nextId;
      this.nextId += 2;
      const fromMs = settings.rate > 0 ? this.due.shift() : atMs;
      this.dueAtMs[(id >> 1) & (SPOTS - 1)] = fromMs;
      this.sentAtMs[(id >> 1) & (SPOTS - 1)] = sentMs;
      if (counts) note(tally.ownLateness, (atMs - fromMs) * 1_000);
      at = this.write(out, at, id);
    }
    this.inFlight += count;
    this.socket.write(out.subarray(0, at));
  }

  write(out, at, id) {
    const call = id >> 1;
    const which = call % templates.length;
    const { first, later, dataLength } = templates[which];
    this.window -= dataLength;
    const bytes = id === 1 ? first : later;
    if (templates.length === 1) return writeCall(bytes, out, at, id, nextKey());
    // Each number once: the first settlements find nothing, which is over before calls count.
    const round = (call - which) / 2 + (which === 0 ? PAIR_ROUNDS : 0);
    const number = round * settings.connections + this.index;
    return writeCall(bytes, out, at, id, (Math.imul(number, 2_654_435_761) >>> 0) % settings.keys, number);
  }

  read(chunk) {
    const bytes = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk]);
    const nowMs = performance.now();
    let at = 0;
    while (at + 9 <= bytes.length) {
      const length = bytes[at] * 65_536 + bytes[at + 1] * 256 + bytes[at + 2];
      if (at + 9 + length > bytes.length) break;
      this.readFrame(bytes, at, length, nowMs);
      at += 9 + length;
    }
    this.rest = at === bytes.length ? bytes.subarray(at) : Buffer.from(bytes.subarray(at));
    this.fill(nowMs);
  }

  readFrame(bytes, at, length, nowMs) {
    const type = bytes[at + 3];
    const flags = bytes[at + 4];
    if (type === 0) {
      // Message prefix of five bytes, then overall_code, the first field.
      if (length >= 7 && bytes[at + 14] === 8) this.codes[spotOf(bytes, at)] = bytes[at + 15];
    } else if (type === 1) {
      if ((flags & 1) === 1) this.answered(spotOf(bytes, at), nowMs);
    } else if (type === 8) {
      if (bytes.readUInt32BE(at + 5) === 0) this.window += bytes.readUInt32BE(at + 9);
    } else if (type === 4 || type === 6) {
      if ((flags & 1) === 0)
        this.socket.write(frame(type, 1, 0, type === 4 ? Buffer.alloc(0) : bytes.subarray(at + 9, at + 17)));
    } else throw new Error(`the server sent a frame of type ${type}, flags ${flags}`);
  }

  answered(spot, nowMs) {
    this.inFlight--;
    const code = this.codes[spot];
    this.codes[spot] = 0;
    if (!counts) return;
    tally.calls++;
    if (code === 1) tally.allowed++;
    else if (code === 2) tally.overLimit++;
    else tally.errors++;
    const us = (nowMs - this.dueAtMs[spot]) * 1_000;
    tally.sumUs += us;
    note(tally.times, us);
    note(tally.timesFromSending, (nowMs - this.sentAtMs[spot]) * 1_000);
  }
}

function note(times, us) {
  times[Math.min(times.length - 1, Math.floor(us / BUCKET_US))]++;
}

function spotOf(bytes, at) {
  return (bytes.readUInt32BE(at + 5) >> 1) & (SPOTS - 1);
}

async function connectTo() {
  const socket = await openSocket(settings);
  socket.on("close", () => {
    throw new Error("the server closed a connection");
  });
  socket.write(OPENING);
  return socket;
}

// Asks and asks, and never reads: what it is owed fills the buffers of the system, then those of the server.
async function openSlow() {
  const socket = await openSocket(settings);
  // A server may end such a connection; that is the server's right.
  socket.on("error", () => undefined);
  socket.write(OPENING);
  socket.pause();
  let id = 1;
  setInterval(() => {
    if (socket.writableLength > 1_000_000) return;
    const [{ first, later }] = templates;
    const bytes = Buffer.allocUnsafe(first.bytes.length);
    socket.write(bytes.subarray(0, writeCall(id === 1 ? first : later, bytes, 0, id, nextKey())));
    id += 2;
  }, 1);
}

/** Sends what is due, turn by turn, until `endMs`. */
async function pace(callers, endMs) {
  const everyMs = 1_000 / settings.rate;
  let dueMs = performance.now();
  for (let turn = 0; dueMs < endMs; ) {
    const nowMs = performance.now();
    for (; dueMs <= nowMs; dueMs += everyMs) callers[turn++ % callers.length].due.push(dueMs);
    for (const caller of callers) caller.fill(nowMs);
    await nextTurn();
  }
}

function percentile(times, share) {
  let left = Math.ceil(times.reduce((sum, count) => sum + count, 0) * share);
  for (let i = 0; i < times.length; i++) {
    left -= times[i];
    if (left <= 0) return (i + 1) * BUCKET_US;
  }
  return Number.NaN;
}

const callers = [];
for (let i = 0; i < settings.connections; i++) callers.push(new Caller(await connectTo(), i));
for (let i = 0; i < settings.slowConnections; i++) await openSlow();
const redis = settings.redisPorts.length > 0 ? await openRedisCounters(settings) : undefined;
const bytesNow = () => callers.map(({ socket }) => [socket.bytesWritten, socket.bytesRead]);
const sumOf = (rows, column) => rows.reduce((sum, row) => sum + row[column], 0);
const wait = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
const startMs = performance.now();
const endMs = startMs + (settings.warmUpSeconds + settings.seconds) * 1_000;
if (settings.rate === 0) for (const caller of callers) caller.fill(startMs);
const paced = settings.rate > 0 ? pace(callers, endMs) : undefined;
await wait(settings.warmUpSeconds);
counts = true;
const countsFromMs = performance.now();
const bytesBefore = bytesNow();
const redisBefore = redis?.read();
const cpuNow = () => [process.pid, settings.serverPid].map(cpuMicrosOf);
const storeCpuNow = () => settings.storePids.map(cpuMicrosOf).reduce((sum, one) => sum + one, 0);
const [ownBefore, serverBefore] = cpuNow();
const storeBefore = storeCpuNow();
await Promise.all([paced, wait(settings.seconds)]);
counts = false;
const bytesAfter = bytesNow();
const redisAfter = redis?.read();
const seconds = (performance.now() - countsFromMs) / 1_000;
const [ownAfter, serverAfter] = cpuNow();
const storeAfter = storeCpuNow();
const { calls, allowed, overLimit, errors } = tally;
const report = {
  perSecond: calls / seconds,
  calls,
  allowed,
  overLimit,
  errors,
  meanUs: tally.sumUs / calls,
  p50Us: percentile(tally.times, 0.5),
  p99Us: percentile(tally.times, 0.99),
  p999Us: percentile(tally.times, 0.999),
  sentP99Us: percentile(tally.timesFromSending, 0.99),
  ownLateP99Us: percentile(tally.ownLateness, 0.99),
  bytesSentPerCall: (sumOf(bytesAfter, 0) - sumOf(bytesBefore, 0)) / calls,
  bytesReadPerCall: (sumOf(bytesAfter, 1) - sumOf(bytesBefore, 1)) / calls,
  cpuMicrosPerCall: (serverAfter - serverBefore) / calls,
  serverCpu: (serverAfter - serverBefore) / 1e6 / seconds,
  ownCpu: (ownAfter - ownBefore) / 1e6 / seconds,
  storeMicrosPerCall: (storeAfter - storeBefore) / calls,
  redis: redis === undefined ? undefined : redis.perCall(await redisBefore, await redisAfter, calls),
};
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
