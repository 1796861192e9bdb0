// Commands to Redis that carry no takes: the register of processes, and limits at run time.

import type { Clock } from "../../base/clock.ts";
import { StoreError } from "../../base/errors.ts";
import { isRecord } from "../../base/is-record.ts";
import { MICROS_PER_MILLI } from "../../base/units.ts";
import type { RedisNode } from "./redis-node.ts";

/** Where these commands go. */
export interface AsideOptions {
  readonly kind: "redis";
  readonly keyPrefix: string;
  /** The node that keeps a key now, if it is known. */
  readonly nodeOf: (key: string) => RedisNode | undefined;
  readonly clock: Clock;
}

/** Asks the node that keeps `key`. */
export class Aside {
  readonly #key: string;
  readonly #options: AsideOptions;

  constructor(options: AsideOptions, key: string) {
    this.#options = options;
    this.#key = key;
  }

  /** The server's clock, in microseconds since the epoch. */
  nowUs(): number {
    const node = this.#options.nodeOf(this.#key);
    return node === undefined ? this.#options.clock.nowUs() : node.serverTimeMs() * MICROS_PER_MILLI;
  }

  /** Sends a command. Rejects with StoreError. */
  async ask(name: string, ...args: readonly string[]): Promise<unknown> {
    const node = this.#options.nodeOf(this.#key);
    if (node?.connection === undefined)
      throw new StoreError("STORE_UNREACHABLE", node?.trouble() ?? "Redis can't be reached");
    try {
      return await node.connection.command(name, args);
    } catch (error) {
      throw new StoreError("STORE_COMMAND", node.describe(error), error);
    }
  }
}

export function texts(reply: unknown): string[] {
  return Array.isArray(reply) ? reply.map(textOrNone) : [];
}

export function textOrNone(reply: unknown): string {
  return Buffer.isBuffer(reply) ? reply.toString() : "";
}

/** A hash, which ioredis makes an object of. */
export function pairs(reply: unknown): (readonly [string, string])[] {
  return isRecord(reply) ? Object.entries(reply).map(([key, text]) => [key, textOrNone(text)] as const) : [];
}
