// Says in one sentence why Redis can't be used. Never quotes a password: only known parts of Redis's messages are used.

import { errorCode } from "../../base/thrown.ts";
import {
  describeConnectError,
  HUNG_UP,
  type MessageTroubles,
  type OwnTroubles,
  troubleOf,
} from "../batching/connecting.ts";
import type { RedisTarget } from "./connect.ts";
import { isReplyError } from "./refusals.ts";

/** What messages call a node of a cluster. */
export const CLUSTER_NODE = "Redis Cluster node";

/** The server's name in messages: host and port, or the path of its socket; never the login. */
export function nameOfTarget(target: RedisTarget): string {
  const { address, called = "Redis" } = target;
  if (address.kind === "unix") return `${called} at ${address.path}`;
  return `${called} at ${address.host.includes(":") ? `[${address.host}]` : address.host}:${address.port}`;
}

/**
 * The problem as a sentence without its full stop. `error` comes from connecting, from logging in, or from a command.
 */
export function describeTrouble(error: unknown, target: RedisTarget): string {
  if (error instanceof FindError) return error.message;
  const name = nameOfTarget(target);
  if (error instanceof WrongRoleError) return `${name} ${error.message}`;
  if (isReplyError(error)) return `${name} ${describeReply(error.message, target)}`;
  if (target.tls !== undefined && errorCode(error) === "ETIMEDOUT") {
    return `${name} can't be reached by TLS in time${OWN_TROUBLES.tlsHint}`;
  }
  return `${name} ${describeConnectError(error, OWN_TROUBLES)}`;
}

const OWN_TROUBLES: OwnTroubles = {
  beforeTls: [[/Protocol error|Unknown RESP type/i, "is not Redis: it does not answer in Redis's protocol"]],
  afterTls: [[/^Connection is closed/, HUNG_UP]],
  tlsHint: "; it may not speak TLS",
};

/** Like describeTrouble, for errors of connecting: a server that hangs up on a plaintext greeting may expect TLS. */
export function describeConnectTrouble(error: unknown, target: RedisTarget): string {
  const sentence = describeTrouble(error, target);
  const isPlain = target.tls === undefined && target.address.kind === "tcp";
  if (!isPlain || !sentence.endsWith(HUNG_UP)) return sentence;
  return `${sentence} without an answer; if it needs TLS, use rediss://`;
}

/** The server's address can't be found out; the message is a sentence without its full stop. */
export class FindError extends Error {
  override readonly name = "FindError";
}

/** The server has another role than expected; the message follows its name. */
export class WrongRoleError extends Error {
  override readonly name = "WrongRoleError";
}

const REPLY_TROUBLES: MessageTroubles = [
  [/\bWRONGPASS\b|invalid password/, "refuses the password or the user name"],
  [/\bNOAUTH\b/, "needs a password, and none is set"],
  [/wrong number of arguments for 'auth'/i, "does not know user names (it is older than version 6), but one is set"],
  [/\bOOM\b/, "has reached its maxmemory and refuses writes"],
  [/\bMISCONF\b/, "refuses writes because it can't save its data to disk"],
  [/\bNOREPLICAS\b/, "refuses writes because it has too few replicas"],
  [/\bREADONLY\b/, "is a read-only replica"],
  [/\bLOADING\b/, "is still loading its data"],
  [/\bMASTERDOWN\b/, "is a replica that lost its primary"],
  [/\bBUSY\b/, "is busy running another script"],
  [/\bCLUSTERDOWN\b/, "is part of a cluster that is down: no node serves some of its slots"],
  [
    /\bMOVED\b|\bASK\b|\bCROSSSLOT\b|\bTRYAGAIN\b/,
    "is a node of a Redis Cluster: use redis-cluster:// (or REDIS_TYPE=cluster)",
  ],
  [/cluster support disabled/i, "is not a node of a Redis Cluster: use redis:// (or REDIS_TYPE=single)"],
  [/DB index is out of range|invalid DB index/i, "does not have the configured database number"],
  [/max number of clients/i, "has reached its maximum number of clients"],
  [/\bDENIED\b/, "runs in protected mode and refuses connections from other hosts"],
];

function describeReply(message: string, target: RedisTarget): string {
  if (/\bNOPERM\b|No permissions? to|can't run this command or subcommand/i.test(message)) {
    return `does not allow the user ${target.login?.username ?? "we log in as"} to ${whatIsForbidden(message)}`;
  }
  const unknown = /unknown command [`']?([a-z]+)/i.exec(message)?.[1]?.toUpperCase();
  if (unknown !== undefined) return UNKNOWN_COMMANDS[unknown] ?? `does not know the command ${unknown}`;
  if (target.called === CLUSTER_NODE && /\b(MOVED|ASK)\b/.test(message)) return "has given its slots to another node";
  return troubleOf(message, REPLY_TROUBLES) ?? describeOtherReply(message);
}

const UNKNOWN_COMMANDS: Readonly<Record<string, string>> = {
  SENTINEL: "is a Redis server, not a sentinel",
  TIME: "does not know the command TIME; if it is a sentinel, use redis-sentinel:// (or REDIS_TYPE=sentinel)",
};

function whatIsForbidden(message: string): string {
  if (/key/i.test(message)) return "use Headgate's keys";
  const command = /'([a-z|]+)'/i.exec(message)?.[1];
  return command === undefined ? "run the commands of Headgate's script" : `run ${command.toUpperCase()}`;
}

function describeOtherReply(message: string): string {
  // Such a message has the script's line, never its arguments.
  const inScript = /user_script:\d+: [^@]{1,120}/.exec(message)?.[0];
  if (inScript !== undefined) return `failed in Headgate's script (${inScript.trim()})`;
  return `answers with an error (${/^[A-Z]+/.exec(message)?.[0] ?? "ERR"})`;
}
