// The thread that parses rule files beside the one that serves calls; parse-in-thread.ts starts it and ends it. One file per
// message, answered in order.

import { parentPort } from "node:worker_threads";
import { parseFile } from "./parse-file.ts";
import type { ReadFile } from "./read-files.ts";
import { packFile } from "./tree-wire.ts";

/** What the thread says once it can parse. */
const READY = "ready";

parentPort?.on("message", ({ bytes, ...file }: Omit<ReadFile, "bytes"> & { bytes: Uint8Array }) => {
  const packed = packFile(parseFile({ ...file, bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) }));
  parentPort?.postMessage(packed, [packed.numbers.buffer]);
});
parentPort?.postMessage(READY);
