// The thread that parses rule files beside the one that serves calls; parse-aside.ts starts it and ends it. One file per
// message, answered in order.

import { parentPort } from "node:worker_threads";
import { parseFile } from "./parse-file.ts";
import { packFile } from "./tree-wire.ts";

/** What the thread says once it can parse. */
const READY = "ready";

parentPort?.on("message", ({ name, bytes }: { name: string; bytes: Uint8Array }) => {
  const packed = packFile(parseFile({ name, bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) }));
  parentPort?.postMessage(packed, [packed.numbers.buffer]);
});
parentPort?.postMessage(READY);
