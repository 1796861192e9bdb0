// Finds the server of a link. It is asked before each attempt to connect, because the server may change.

import type { RedisAddress } from "../store-address.ts";
import type { RedisTarget } from "./connect.ts";
import { nameOfTarget } from "./connect-trouble.ts";

/** Finds the server of a link. */
export interface ServerFinder {
  /** What messages call the server before it is found. */
  readonly name: string;
  /** Whether the found server must confirm by ROLE that it is a primary. */
  readonly wantsPrimary: boolean;
  /** The server to connect to now. Rejects with FindError (connect-trouble.ts) if it can't be found. */
  find(): Promise<RedisTarget>;
  /** Notes that the server found last is in use. */
  onUsed(): void;
  /** Calls `onMoved` with the server's address whenever it may have changed; to be called once. */
  watch(onMoved: (address: RedisAddress) => void): void;
  close(): void;
}

/** A server with a fixed address. */
export function fixedServer(target: RedisTarget): ServerFinder {
  return {
    name: nameOfTarget(target),
    wantsPrimary: false,
    find: () => Promise.resolve(target),
    onUsed: () => undefined,
    watch: () => undefined,
    close: () => undefined,
  };
}
