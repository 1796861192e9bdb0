// Who may write a snapshot file: the process that listens on the socket beside it. The kernel ends that with the process,
// however it ends, and tells it alike to all containers of a machine, where numbers of processes mean nothing
// (docs/decisions/0018-snapshots-of-the-memory-store.md).

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { link, lstat, rename, rm } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { hostname } from "node:os";
import { errorCode } from "../../../core/thrown.ts";
import { isoTime } from "../../../core/units.ts";

/** Longest wait for what the holder says of itself; one that is stopped says nothing. */
const ANSWER_MS = 1_000;
const ANSWER_CHARS_MAX = 300;
/** What a holder says of itself ends with a token that no other has. */
const TOKEN_MARK = ", token ";
/** How often a lock that a dead process left is taken away; each time another process may have been quicker. */
const TRIES = 5;

/** Another process has the lock. */
export class LockHeldError extends Error {
  override readonly name = "LockHeldError";
}

/** A lock that this process has. */
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
   * Takes the lock beside `file`, also one that a dead process left. Throws LockHeldError, which says who, if a process has it
   * that lives, and the system's error if there can be none.
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

  /** False if somebody took the lock away. */
  async isHeld(): Promise<boolean> {
    return (await askHolder(this.#path)) === this.#answer;
  }

  async release(): Promise<void> {
    // Closing removes the path, which may be another's by now.
    if (!(await this.isHeld())) return;
    this.#server.close();
    await once(this.#server, "close");
  }
}

/** Undefined if the path is another process's. */
async function listen(path: string, answer: string): Promise<Server | undefined> {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.end(answer);
  });
  // The lock does not keep the process alive.
  server.unref();
  try {
    // Whoever may look into the folder may ask, so that what a dead process of another user left is known for what it is.
    server.listen({ path, readableAll: true, writableAll: true });
    await once(server, "listening");
    return server;
  } catch (error) {
    // Another process had it first, or took this one for a dead one's, which it looks like until it listens.
    if (errorCode(error) === "EADDRINUSE" || wasTakenAway(error)) return undefined;
    throw error;
  }
}

/** True if the socket was no longer there when its mode was to be set. A folder that is not there is said otherwise, by EACCES. */
function wasTakenAway(error: unknown): boolean {
  return errorCode(error) === "ENOENT";
}

/** What the process says that listens there; undefined if none does. */
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
      // Whatever else is there (no socket, one of another user) may be somebody's.
      end(code === "ECONNREFUSED" || code === "ENOENT" ? undefined : `a process that can't be asked (${code})`);
    });
  });
}

/** Takes away what a dead process left. Another name first: somebody quicker may have put a lock of their own there. */
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
    // A third process has it by now; the one whose lock this was finds out when it looks whether it holds it.
    if (errorCode(error) !== "EEXIST") throw error;
  }
}
