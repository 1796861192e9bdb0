// The lock of a snapshot file: held by the process that listens on the Unix socket next to the file. The kernel ends
// the listening with the process, however that ends, and all containers of a machine see it alike, whereas process ids
// differ between containers (docs/decisions/0018-snapshots-of-the-memory-store.md).

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { link, lstat, rename, rm } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { hostname } from "node:os";
import { errorCode } from "../../../base/thrown.ts";
import { isoTime } from "../../../base/units.ts";

/** Longest wait for the holder's answer; a stopped process does not answer. */
const ANSWER_MS = 1_000;
const ANSWER_CHARS_MAX = 300;
/** A holder's answer ends with a random token after this mark. */
const TOKEN_MARK = ", token ";
/** How often the lock of a dead process is removed; each time another process may take the lock first. */
const TRIES = 5;

/** Another process has the lock. */
export class LockHeldError extends Error {
  override readonly name = "LockHeldError";
}

/** A lock that this process holds. */
export class SnapshotLock {
  readonly #path: string;
  readonly #server: Server;
  readonly #answer: string;

  private constructor(path: string, server: Server, answer: string) {
    this.#path = path;
    this.#server = server;
    this.#answer = answer;
  }

  /**
   * Takes the lock of `file`, also if a dead process has left it. Rejects with LockHeldError, which names the holder,
   * if a living process has it, and with the system's error if the socket can't be made.
   */
  static async take(file: string, sinceUs: number): Promise<SnapshotLock> {
    const path = `${file}.lock`;
    const since = isoTime(sinceUs);
    const answer = `process ${process.pid} on ${hostname()} since ${since}${TOKEN_MARK}${randomBytes(8).toString("hex")}`;
    for (let tries = 0; tries < TRIES; tries++) {
      const server = await listen(path, answer);
      if (server !== undefined) return new SnapshotLock(path, server, answer);
      const holder = await askHolder(path);
      if (holder !== undefined) throw new LockHeldError(holder.split(TOKEN_MARK)[0]);
      await removeDead(path);
    }
    throw new LockHeldError("others that take it at the same moment");
  }

  /** False if another process has taken the lock. */
  async isHeld(): Promise<boolean> {
    return (await askHolder(this.#path)) === this.#answer;
  }

  async release(): Promise<void> {
    // To close the server would remove the path, which may belong to another process by now.
    if (!(await this.isHeld())) return;
    this.#server.close();
    await once(this.#server, "close");
  }
}

/** Undefined if another process has the path. */
async function listen(path: string, answer: string): Promise<Server | undefined> {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.end(answer);
  });
  // The lock does not keep the process alive.
  server.unref();
  try {
    // Other users may connect too, to find out whether the process lives.
    server.listen({ path, readableAll: true, writableAll: true });
    await once(server, "listening");
    return server;
  } catch (error) {
    // Another process was first, or it took this socket for a dead one's: before it listens it looks like one.
    if (errorCode(error) === "EADDRINUSE" || wasTakenAway(error)) return undefined;
    throw error;
  }
}

/** Whether the socket was gone when its mode was set. A missing folder is reported otherwise, by EACCES. */
function wasTakenAway(error: unknown): boolean {
  return errorCode(error) === "ENOENT";
}

/** The answer of the process that listens on the path; undefined if none does. */
function askHolder(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    let answer = "";
    const socket = connect(path);
    const end = (said: string | undefined) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(said);
    };
    const timer = setTimeout(() => end("a process that says nothing of itself"), ANSWER_MS);
    socket.setEncoding("utf8");
    socket.on("data", (text: string) => {
      answer = (answer + text).slice(0, ANSWER_CHARS_MAX);
    });
    socket.on("end", () => end(answer));
    socket.on("error", (error) => {
      const code = errorCode(error);
      // Anything else at the path (no socket, or another user's) may be in use.
      end(code === "ECONNREFUSED" || code === "ENOENT" ? undefined : `a process that can't be asked (${code})`);
    });
  });
}

/**
 * Removes the lock of a dead process. It is renamed first and asked again, because another process may have put its own
 * lock there.
 */
async function removeDead(path: string): Promise<void> {
  const name = `${path}-${randomBytes(3).toString("hex")}`;
  try {
    if (!(await lstat(path)).isSocket())
      throw new Error(`expected a lock at ${path}, got something else of that name: move it away`);
    await rename(path, name);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return;
    throw error;
  }
  if ((await askHolder(name)) !== undefined) await putBack(name, path);
  await rm(name);
}

async function putBack(name: string, path: string): Promise<void> {
  try {
    await link(name, path);
  } catch (error) {
    // A third process has the lock by now. The process whose lock this was notices when it checks its lock.
    if (errorCode(error) !== "EEXIST") throw error;
  }
}
