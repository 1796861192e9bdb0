// What ShouldRateLimit costs between bytes and objects: our codec beside proto-loader, same messages, same run.
//   npm run build && node bench/micro/codec.mjs [--write]
// --write also keeps the figures under bench/results.

import { WireWriter } from "../../dist/base/wire.js";
import { LimitRequest } from "../../dist/engine/domain/request.js";
import { Decision } from "../../dist/engine/limiter/call.js";
import { decodeRequest, encodeDecision } from "../../dist/grpc/rls/codec.js";
import { loadProto } from "../harness/load-proto.mjs";
import { printTable, writeResults } from "../harness/report.mjs";

const CALLS = 200_000;
const ROUNDS = 9;

const proto = loadProto();
const requestType = proto["envoy.service.ratelimit.v3.RateLimitRequest"];
const responseType = proto["envoy.service.ratelimit.v3.RateLimitResponse"];

// Many callers, as in production: a cache of strings would look better here than it is if all messages were one.
const REQUESTS = Array.from({ length: 1_024 }, (_, i) =>
  requestType.serialize({
    domain: "edge",
    descriptors: [
      {
        entries: [
          { key: "tenant", value: `tenant-${i % 64}` },
          { key: "path", value: "/api/v1/orders" },
        ],
      },
      { entries: [{ key: "remote_address", value: `10.0.${i >> 8}.${i & 255}` }] },
    ],
  }),
);
const LIMIT = { shownAmount: 100, shownUnit: 1, names: { name: "per-second" } };

function fillDecision(decision) {
  decision.reset();
  for (let i = 0; i < 2; i++) {
    const status = decision.addStatus();
    status.limit = LIMIT;
    status.remaining = 41;
    status.hasReset = true;
    status.resetSeconds = 1;
  }
}

const ANSWER_OBJECT = {
  overall_code: "OK",
  statuses: Array.from({ length: 2 }, () => ({
    code: "OK",
    current_limit: { requests_per_unit: 100, unit: "SECOND", name: "per-second" },
    limit_remaining: 41,
    duration_until_reset: { seconds: 1 },
  })),
};

const request = new LimitRequest();
const decision = new Decision();
const writer = new WireWriter();
const cases = {
  "decode, headgate": (i) => {
    decodeRequest(REQUESTS[i & 1_023], request);
    return request.descriptorCount;
  },
  "decode, proto-loader": (i) => requestType.deserialize(REQUESTS[i & 1_023]).descriptors.length,
  "encode, headgate": () => {
    fillDecision(decision);
    return encodeDecision(decision, writer).length;
  },
  "encode, proto-loader": () => responseType.serialize(ANSWER_OBJECT).length,
};

// Cases take turns, so that what else the machine does hits all of them alike.
const samples = new Map(Object.keys(cases).map((name) => [name, []]));
let kept = 0;
for (let round = -2; round < ROUNDS; round++) {
  for (const [name, run] of Object.entries(cases)) {
    const start = process.hrtime.bigint();
    for (let i = 0; i < CALLS; i++) kept += run(i);
    if (round >= 0) samples.get(name).push(Number(process.hrtime.bigint() - start) / CALLS);
  }
}

const medians = new Map([...samples].map(([name, ns]) => [name, ns.sort((a, b) => a - b)[ROUNDS >> 1]]));
const rows = [...samples].map(([name, ns]) => ({
  case: name,
  "ns per call (median)": Math.round(medians.get(name)),
  "best round": Math.round(ns[0]),
  "times quicker": (medians.get(`${name.split(",")[0]}, proto-loader`) / medians.get(name)).toFixed(1),
}));
printTable(`ShouldRateLimit with two descriptors, ${ROUNDS} rounds of ${CALLS} calls (checksum ${kept})`, rows);
if (process.argv.includes("--write")) writeResults("codec", "node bench/micro/codec.mjs --write", rows);
