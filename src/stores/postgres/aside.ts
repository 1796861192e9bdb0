// Statements to PostgreSQL that carry no takes: the register of processes, and limits at run time. They have a
// connection of their own, so that no load keeps them waiting; while it can't be had, they go over one that carries
// takes.

import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../base/clock.ts";
import { StoreError } from "../../base/errors.ts";
import type { PostgresTarget } from "../../settings/store-address.ts";
import { withTimeLimit } from "../batching/connecting.ts";
import type { ServerTime } from "../batching/server-time.ts";
import type { PostgresConnection, Rows } from "./connect.ts";
import { describePostgresTrouble } from "./connect-trouble.ts";
import { storedKey } from "./postgres-batch.ts";
import type { PostgresLink } from "./postgres-link.ts";
import { isWorthRepeating } from "./refusals.ts";

/** How often a statement is sent that conflicts with another. */
const ATTEMPTS_MAX = 10;
/** How often a connection that carries takes is looked for. */
const LOOK_MS = 2;

interface AsideOptions {
  readonly link: PostgresLink;
  /** Those that carry takes. */
  readonly others: readonly PostgresLink[];
  readonly target: PostgresTarget;
  readonly silenceMs: number;
  readonly keyPrefix: string;
  readonly clock: Clock;
  readonly serverTime: ServerTime;
}

export interface PostgresAside {
  readonly kind: "postgres";
  /** Sends a statement whose $1 is the prefix of keys. Rejects with StoreError. */
  readonly ask: (text: string, ...values: readonly (string | null)[]) => Promise<Rows>;
  /** The server's clock, in microseconds since the epoch. */
  readonly nowUs: () => number;
}

export function openAside(options: AsideOptions): PostgresAside {
  const { target, silenceMs, clock, serverTime } = options;
  const prefix = storedKey(options.keyPrefix);
  return {
    kind: "postgres",
    async ask(text, ...values) {
      for (let attempt = 1; ; attempt++) {
        const query = (connection: PostgresConnection) => connection.query({ text, values: [prefix, ...values] });
        try {
          return await withTimeLimit(silenceMs, overAny(options, query));
        } catch (error) {
          if (error instanceof StoreError) throw error;
          if (isWorthRepeating(error) && attempt < ATTEMPTS_MAX) continue;
          throw new StoreError("STORE_COMMAND", describePostgresTrouble(error, target), error);
        }
      }
    },
    nowUs: () => serverTime.estimateUs(clock.nowUs()),
  };
}

async function overAny<T>(
  { link, others }: AsideOptions,
  run: (connection: PostgresConnection) => Promise<T>,
): Promise<T> {
  for (;;) {
    if (link.connection !== undefined) return run(link.connection);
    const free = others.find(({ isFree }) => isFree);
    if (free !== undefined) return free.use(run);
    if (others.every(({ connection }) => connection === undefined))
      throw new StoreError("STORE_UNREACHABLE", link.trouble ?? `${link.name} can't be reached`);
    await sleep(LOOK_MS);
  }
}
