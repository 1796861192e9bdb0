// Opens one connection to one server and logs in. The store sees a RedisConnection and nothing of ioredis, whose own ways
// with Sentinel and Cluster send commands twice; those are server-finder.ts and cluster-store.ts here. Whoever opens a
// connection decides what to do when it is lost.

import { readFileSync } from "node:fs";
import { Command, Redis, type RedisOptions } from "ioredis";
import type { RedisAccess, RedisAddress } from "../../core/store-address.ts";
import { readClientTls } from "../batching/client-tls.ts";
import { SilenceError, withTimeLimit } from "../batching/time-limit.ts";

/** Where a server is and how to reach it. */
export interface RedisTarget extends RedisAccess {
  readonly address: RedisAddress;
  /** What messages call it. Default: Redis. */
  readonly called?: string;
}

/** An open connection. Commands are sent once, in order, many at a time, and never sent again. */
export interface RedisConnection {
  /** Sends a command. Rejects with a ReplyError when Redis refuses it, with another Error when its fate is unknown. */
  command(name: string, args: readonly (string | Buffer)[]): Promise<unknown>;
  /** As `send`, for arguments that are one-byte text, bytes as char codes: many of them travel as cheaply as one. */
  commandOfBytes(name: string, args: readonly string[]): Promise<unknown>;
  /** Sends what `send` does in one write. */
  together(send: () => void): void;
  /** Hears what is published in the channel from now on; other commands can't be sent any more. */
  subscribe(channel: string, onMessage: (message: string) => void): Promise<void>;
  /** Closes it without waiting for anything; `onLost` is not called for it. */
  drop(): void;
}

/** True if Redis itself answered with an error: the command ran, or was refused, but is not under way. */
export function isReplyError(error: unknown): error is Error {
  return error instanceof Error && error.name === "ReplyError";
}

/** True if the command never left this process. */
export function wasNeverSent(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("Stream isn't writeable");
}

/**
 * Connects, logs in and selects the database. Rejects with what went wrong (connect-trouble.ts makes a sentence of it).
 * `onLost` is called once if the connection ends by itself afterwards.
 */
export async function openConnection(target: RedisTarget, onLost: () => void): Promise<RedisConnection> {
  const redis = new Redis(optionsOf(target));
  let firstError: Error | undefined;
  redis.on("error", (error: Error) => {
    firstError ??= error;
  });
  const connection: RedisConnection = {
    command: (name, args) => redis.callBuffer(name, [...args]),
    commandOfBytes: async (name, args) => await redis.sendCommand(new ByteCommand(name, args)),
    together: (send) => {
      const { stream } = redis;
      stream.cork();
      try {
        send();
      } finally {
        stream.uncork();
      }
    },
    subscribe: async (channel, onMessage) => {
      redis.on("message", (_channel: string, message: string) => onMessage(message));
      await redis.subscribe(channel);
    },
    drop: () => {
      redis.off("end", onLost);
      redis.disconnect();
    },
  };
  try {
    await withTimeLimit(target.connectTimeoutMs * 2, redis.connect());
    await withTimeLimit(target.connectTimeoutMs, logIn(connection, target));
  } catch (error) {
    connection.drop();
    throw isReplyError(error) || error instanceof SilenceError ? error : (firstError ?? error);
  }
  redis.on("end", onLost);
  return connection;
}

/** A command that is put together and written as one-byte text: as UTF-8 it would be looked through char by char. */
class ByteCommand extends Command {
  constructor(name: string, args: readonly string[]) {
    super(name, [...args], { replyEncoding: null });
  }

  override toWritable(): Buffer {
    let text = `*${this.args.length + 1}\r\n$${this.name.length}\r\n${this.name}\r\n`;
    for (const arg of this.args as string[]) text += `$${arg.length}\r\n${arg}\r\n`;
    return Buffer.from(text, "latin1");
  }
}

/** The login to use now. Throws when the file can't be read. */
function currentLogin(target: RedisAccess): RedisAccess["login"] {
  if (target.loginFile === undefined) return target.login;
  const text = readFileSync(target.loginFile, "utf8").replace(/\r?\n$/, "");
  const colon = text.indexOf(":");
  if (colon < 0) return { username: undefined, password: text };
  return { username: colon === 0 ? undefined : text.slice(0, colon), password: text.slice(colon + 1) };
}

// A take is paid at most once: nothing is queued while disconnected, nothing is sent a second time. Reconnecting is the
// link's business, which opens a new connection. Logging in is ours, because ioredis would write its own warnings.
function optionsOf(target: RedisTarget): RedisOptions & { replyMapping: "legacy" } {
  const { address } = target;
  return {
    ...(address.kind === "unix" ? { path: address.path } : { host: address.host, port: address.port }),
    ...(target.tls === undefined ? {} : { tls: readClientTls(target.tls, hostOf(address)) }),
    protocol: 2,
    replyMapping: "legacy",
    lazyConnect: true,
    enableOfflineQueue: false,
    enableReadyCheck: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    disableClientInfo: true,
    connectTimeout: target.connectTimeoutMs,
    keepAlive: 10_000,
    noDelay: true,
  };
}

function hostOf(address: RedisAddress): string | undefined {
  return address.kind === "tcp" ? address.host : undefined;
}

async function logIn(connection: RedisConnection, target: RedisTarget): Promise<void> {
  const login = currentLogin(target);
  if (login !== undefined) {
    const args = login.username === undefined ? [login.password] : [login.username, login.password];
    try {
      await connection.command("auth", args);
    } catch (error) {
      // A password for a server that wants none does no harm.
      if (!isReplyError(error) || !/without any password|no password is set/.test(error.message)) throw error;
    }
  }
  if (target.database !== 0) await connection.command("select", [String(target.database)]);
}
