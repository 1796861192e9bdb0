// Opens one connection to one server and logs in. The store sees a RedisConnection and nothing of ioredis, whose own
// support for Sentinel and Cluster may send a command twice; redis-link.ts and cluster-store.ts take its place. The
// owner of a connection decides what happens when it is lost.

import { readFileSync } from "node:fs";
import { Command, Redis, type RedisOptions } from "ioredis";
import type { RedisAccess, RedisAddress } from "../../settings/store-address.ts";
import { readClientTls, SilenceError, withTimeLimit } from "../batching/connecting.ts";
import { isReplyError } from "./refusals.ts";

/** A server and how to reach it. */
export interface RedisTarget extends RedisAccess {
  readonly address: RedisAddress;
  /** The kind of server in messages. Default: Redis. */
  readonly called?: string;
}

/**
 * An open connection. Commands are sent once, in order, without waiting for each other's replies; none is ever sent
 * again.
 */
export interface RedisConnection {
  /**
   * Sends a command. Rejects with a ReplyError if Redis refuses it, or with another Error if its outcome is unknown.
   */
  command(name: string, args: readonly (string | Buffer)[]): Promise<unknown>;
  /** Like `command`, for arguments in one-byte text (a char code per byte); many of them cost hardly more than one. */
  commandOfBytes(name: string, args: readonly string[]): Promise<unknown>;
  /** Puts everything that `send` sends into one write. */
  together(send: () => void): void;
  /** Subscribes to the channels. No other commands can be sent after this. */
  subscribe(channels: readonly string[], onMessage: (channel: string, message: string) => void): Promise<void>;
  /** Closes the connection at once; `onLost` is not called. */
  drop(): void;
}

/**
 * Connects, logs in and selects the database. Rejects with the error (connect-trouble.ts describes it). `onLost` is
 * called once if the connection ends later without `drop`.
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
    subscribe: async (channels, onMessage) => {
      redis.on("message", onMessage);
      await redis.subscribe(...channels);
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

/** A command in one-byte text. ioredis would encode its arguments as UTF-8, char by char. */
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

/** The present login. Throws if its file can't be read. */
function currentLogin(target: RedisAccess): RedisAccess["login"] {
  if (target.loginFile === undefined) return target.login;
  const text = readFileSync(target.loginFile, "utf8").replace(/\r?\n$/, "");
  const colon = text.indexOf(":");
  if (colon < 0) return { username: undefined, password: text };
  return { username: colon === 0 ? undefined : text.slice(0, colon), password: text.slice(colon + 1) };
}

// A take must be paid at most once, so nothing is queued without a connection, and nothing is sent twice. redis-link.ts
// reconnects, by a new connection. Logging in is done here, because ioredis would log warnings of its own.
function optionsOf(target: RedisTarget): RedisOptions & { replyMapping: "legacy" } {
  const { address } = target;
  const host = address.kind === "tcp" ? address.host : undefined;
  return {
    ...(address.kind === "unix" ? { path: address.path } : { host: address.host, port: address.port }),
    ...(target.tls === undefined ? {} : { tls: readClientTls(target.tls, host) }),
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
