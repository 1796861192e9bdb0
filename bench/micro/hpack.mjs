// What reading the headers of a call costs: blocks that come again, and blocks that differ in every call because of a
// deadline or a trace. Run it by `node bench/micro/hpack.mjs` after a build.

import { median, printTable } from "../harness/report.mjs";
import { loadDist } from "../load/dist.mjs";

const { HpackDecoder } = await loadDist("../packages/fast-lane/dist/hpack/decoder.js");
const { HpackEncoder } = await loadDist("../packages/fast-lane/dist/hpack/encoder.js");
const { HeaderList } = await loadDist("../packages/fast-lane/dist/hpack/header-list.js");
const { HeaderMemory, readHead, RequestHead, Route } = await loadDist("../packages/fast-lane/dist/header-blocks.js");

const PATH = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const KNOWN = { methods: new Map([[PATH, { path: PATH, handler: undefined }]]), others: new Map() };
const BLOCKS = 2_000;
const ROUNDS = 15;

const hex = (digits) => Array.from({ length: digits }, () => Math.floor(Math.random() * 16).toString(16)).join("");
const trace = () => `00-${hex(32)}-${hex(16)}-01`;
const timeout = () => `${Math.floor(Math.random() * 20_000)}u`;

/** Shapes of calls: which fields vary, and which of all names the client keeps in its table. */
const SHAPES = {
  "the same in every call": { more: () => [], indexes: () => true },
  "path as a literal": { more: () => [], indexes: (name) => name !== ":path" },
  "a timeout that varies": { more: () => [["grpc-timeout", timeout()]], indexes: (name) => name !== "grpc-timeout" },
  "a timeout that varies, kept in the table": { more: () => [["grpc-timeout", timeout()]], indexes: () => true },
  "a traceparent": { more: () => [["traceparent", trace()]], indexes: (name) => name !== "traceparent" },
  "a traceparent, kept in the table": { more: () => [["traceparent", trace()]], indexes: () => true },
};

function blocksOf({ more, indexes }) {
  const encoder = new HpackEncoder(indexes);
  return Array.from({ length: BLOCKS }, () => {
    encoder.begin();
    const fields = [
      [":method", "POST"],
      [":scheme", "http"],
      [":path", PATH],
      [":authority", "ratelimit:8081"],
      ["te", "trailers"],
      ["content-type", "application/grpc"],
      ...more(),
      ["user-agent", "grpc-go/1.70"],
    ];
    for (const [name, value] of fields) encoder.field(name, value);
    return Buffer.from(encoder.end());
  });
}

/** Nanoseconds per block, as a connection reads them. */
function measure(blocks) {
  const decoder = new HpackDecoder(65_536, Buffer.alloc(65_536));
  const memory = new HeaderMemory();
  const list = new HeaderList();
  const head = new RequestHead();
  const start = performance.now();
  for (const block of blocks) {
    const { generation } = decoder.table;
    const known = memory.find(block, 0, block.length, generation);
    if (known !== undefined) continue;
    decoder.decode(block, 0, block.length, list);
    readHead(list, KNOWN, head);
    if (head.route !== Route.unary) throw new Error("expected a unary call");
    if (list.isRepeatable) memory.remember(block, 0, block.length, generation, head);
  }
  return ((performance.now() - start) * 1e6) / blocks.length;
}

const rows = Object.entries(SHAPES).map(([shape, how]) => {
  const times = Array.from({ length: ROUNDS }, () => measure(blocksOf(how)));
  return { headers: shape, "ns per call": Math.round(median(times.slice(3))) };
});
printTable("reading the headers of a call", rows);
