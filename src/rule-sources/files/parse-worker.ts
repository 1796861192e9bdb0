// The worker thread that parses rule files; parse-in-thread.ts starts and ends it. Each message is one file and gets one answer, in
// order.

import { parentPort } from "node:worker_threads";
import { parseFile } from "./parse-file.ts";
import type { ReadFile } from "./read-files.ts";
import { packFile } from "./tree-wire.ts";

parentPort?.on("message", ({ bytes, ...file }: Omit<ReadFile, "bytes"> & { bytes: Uint8Array }) => {
  const packed = packFile(parseFile({ ...file, bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) }));
  parentPort?.postMessage(packed, [packed.numbers.buffer]);
});
