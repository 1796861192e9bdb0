// The number of workers for WORKERS. For `auto` it is one for each core that this process may use: a container of 2 cores on a machine of
// 64 must not start 64 workers. Each Node that hands over sockets knows the quota of a container (libuv 1.51).

import { Socket } from "node:net";
import { availableParallelism } from "node:os";
import { MessageChannel, type TransferListItem } from "node:worker_threads";
import { THREADS_MAX } from "../../engine/base/count-layout.ts";
import { ConfigError } from "../../engine/base/errors.ts";
import { errorCode } from "../../engine/base/thrown.ts";

/**
 * The number of workers for a value of WORKERS. Where connections can't be handed to threads, `auto` is 1, and a number above 1 a
 * ConfigError.
 */
export function workerCountOf(workers: number | "auto", canHandOver = canHandOverSockets): number {
  if (workers === 1) return 1;
  if (canHandOver()) return workers === "auto" ? Math.min(availableParallelism(), THREADS_MAX) : workers;
  if (workers === "auto") return 1;
  const says = `WORKERS: expected 1 or auto, got ${workers}: several workers need Node 24 (a recent one) or newer, this is ${process.version}`;
  throw new ConfigError("CONFIG_SETTINGS", says);
}

/**
 * Tries to transfer a socket without a connection, which every Node rejects: one that can't transfer sockets at all says that it is not
 * transferable, a newer one that its handle is not.
 */
export function canHandOverSockets(): boolean {
  const { port1 } = new MessageChannel();
  const socket = new Socket();
  try {
    port1.postMessage(socket, [socket as unknown as TransferListItem]);
    return true;
  } catch (error) {
    return errorCode(error) === "ERR_WORKER_HANDLE_NOT_TRANSFERABLE";
  } finally {
    port1.close();
    socket.destroy();
  }
}
