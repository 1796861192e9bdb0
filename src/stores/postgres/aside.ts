// Statements to PostgreSQL that carry no takes: the register of processes, and limits at run time.

import { StoreError } from "../../engine/base/errors.ts";
import { withTimeLimit } from "../batching/connecting.ts";
import type { PostgresTarget } from "../store-address.ts";
import { storedKey } from "./batch.ts";
import type { Rows } from "./connect.ts";
import { describeTrouble } from "./connect-trouble.ts";
import type { PostgresLink } from "./link.ts";
import { isWorthRepeating } from "./refusals.ts";

/** How often a statement is sent that conflicts with another. */
const ATTEMPTS_MAX = 10;

export interface AsideOptions {
  readonly link: PostgresLink;
  readonly target: PostgresTarget;
  readonly silenceMs: number;
  readonly keyPrefix: string;
}

/** Sends a statement whose $1 is the prefix of keys. Rejects with StoreError. */
export type Aside = (text: string, ...values: readonly (string | null)[]) => Promise<Rows>;

export function openAside({ link, target, silenceMs, keyPrefix }: AsideOptions): Aside {
  const prefix = storedKey(keyPrefix);
  return async (text, ...values) => {
    for (let attempt = 1; ; attempt++) {
      const { connection } = link;
      if (connection === undefined) throw new StoreError("STORE_UNREACHABLE", `${link.name} can't be reached`);
      try {
        return await withTimeLimit(silenceMs, connection.query({ text, values: [prefix, ...values] }));
      } catch (error) {
        if (isWorthRepeating(error) && attempt < ATTEMPTS_MAX) continue;
        throw new StoreError("STORE_COMMAND", describeTrouble(error, target), error);
      }
    }
  };
}
