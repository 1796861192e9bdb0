// Preloaded (node --require) into every thread of a service that a test starts with several workers: has a worker do what no worker
// does by itself, when the test says so over the service's IPC channel.

const { BroadcastChannel, isMainThread, workerData } = require("node:worker_threads");

const ACTS = {
  throw() {
    setImmediate(() => {
      throw new Error("thrown by a test");
    });
  },
  exit() {
    process.exit(3);
  },
  hang() {
    // Takes no processor time from the others.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  },
};

const channel = new BroadcastChannel("headgate-test");
channel.unref();
if (isMainThread) {
  process.on("message", (message) => channel.postMessage(message));
  process.channel?.unref();
} else {
  channel.onmessage = ({ data: { worker, act } }) => {
    if (workerData?.number === worker) ACTS[act]();
  };
}
