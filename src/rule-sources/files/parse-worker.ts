// The worker thread that parses rule files; parse-in-thread.ts starts and ends it. Each message is a batch of files and
// gets one answer, in order.

import { parentPort } from "node:worker_threads";
import { type ParseBatch, parseInto } from "./parse-in-thread.ts";
import { PackedSet } from "./tree-wire.ts";

parentPort?.on("message", ({ files, nodesMax }: ParseBatch) => {
  const set = new PackedSet(nodesMax);
  for (const file of files) {
    // A message passes a buffer as an array.
    const bytes = Buffer.from(file.bytes.buffer, file.bytes.byteOffset, file.bytes.byteLength);
    parseInto(set, { ...file, bytes });
  }
  parentPort?.postMessage(
    set.files,
    set.files.map(({ numbers }) => numbers.buffer),
  );
});
