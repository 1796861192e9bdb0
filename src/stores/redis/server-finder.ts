// Where a link connects to: told anew before each attempt, because in some set-ups the server changes.

import type { RedisAddress } from "../../core/store-address.ts";
import type { RedisTarget } from "./connect.ts";
import { nameOfTarget } from "./connect-trouble.ts";

/** Finds the server of a link. */
export interface ServerFinder {
  /** Names the server before it was found, for messages. */
  readonly name: string;
  /** True if the server found has to be a primary by its own word, too. */
  readonly wantsPrimary: boolean;
  /** Where to connect now. Rejects with a FindError (connect-trouble.ts) if that can't be said. */
  find(): Promise<RedisTarget>;
  /** The server that was found last is in use. */
  onUsed(): void;
  /** Begins to watch: `onMoved` hears where the server is whenever it may have changed. Once. */
  watch(onMoved: (address: RedisAddress) => void): void;
  close(): void;
}

/** A server that stays where it is. */
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
