// What has happened to this process and its limits: rules that came into force, changes at run time, problems that
// began and ended. Pages mark them in charts, and say who did something last.

import { isoTime } from "../../base/units.ts";

/** Most events that are kept. */
const EVENTS_MAX = 64;

interface PastEvent {
  readonly at: string;
  /** `trouble` and `over`: the beginning and the end of a critical problem. */
  readonly kind: "rules" | "limits" | "trouble" | "over";
  readonly says: string;
  /** These two only for holders of a token. */
  readonly who?: string | undefined;
  readonly note?: string | undefined;
}

/** What is compared from one look to the next. */
interface Facts {
  readonly rules: { readonly version: number; readonly hash: string } | undefined;
  /** Of the store's limits at run time: the last change, and another number after each. */
  readonly limits: { readonly changes: number; readonly last: ChangedLimit | undefined };
  readonly criticals: readonly { readonly id: string; readonly says: string }[];
}

export interface ChangedLimit {
  readonly atUs: number;
  /** What was done to whom, such as `user=bob was blocked`. */
  readonly says: string;
  readonly who: string;
  readonly note: string | undefined;
}

/** Compares what is now with the last look. */
export class EventBook {
  readonly #events: PastEvent[] = [];
  #last: Facts | undefined;
  /** Changes before this are not of this process's time. */
  #changedUs: number;

  constructor(nowUs: number) {
    this.#changedUs = nowUs;
  }

  look(now: Facts, nowUs: number): void {
    const at = isoTime(nowUs);
    const last = this.#last;
    this.#last = now;
    this.#lookAtLimits(now.limits, last?.limits.changes ?? now.limits.changes);
    if (last === undefined) return;
    if (now.rules !== undefined && now.rules.hash !== last.rules?.hash)
      this.#add({ at, kind: "rules", says: `rules ${now.rules.hash.slice(0, 7)} came into force` });
    const ids = new Set(now.criticals.map(({ id }) => id));
    const known = new Set(last.criticals.map(({ id }) => id));
    for (const { id, says } of now.criticals) if (!known.has(id)) this.#add({ at, kind: "trouble", says });
    for (const { id, says } of last.criticals) if (!ids.has(id)) this.#add({ at, kind: "over", says: `over: ${says}` });
  }

  /** The oldest first. `showsWho`: the caller holds a token. */
  list(showsWho: boolean): readonly PastEvent[] {
    return showsWho ? this.#events : this.#events.map(({ at, kind, says }) => ({ at, kind, says }));
  }

  #lookAtLimits({ changes, last }: Facts["limits"], changesThen: number): void {
    if (last === undefined || last.atUs <= this.#changedUs) return;
    this.#changedUs = last.atUs;
    const more = changes - changesThen - 1;
    const says = more > 0 ? `${last.says}, after ${more} more` : last.says;
    this.#add({ at: isoTime(last.atUs), kind: "limits", says, who: last.who, note: last.note });
  }

  #add(event: PastEvent): void {
    this.#events.push(event);
    if (this.#events.length > EVENTS_MAX) this.#events.shift();
  }
}
