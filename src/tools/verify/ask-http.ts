// Asks a page behind a proxy that limits, such as Envoy: 429 is a refusal; 401, 403 and 5xx are no answer; all else is a grant.

import type { Answer, Asked, Lost, Told } from "./call.ts";

const TOO_MANY = 429;
/** Proxies usually authenticate before they ask for limits. */
const BEFORE_LIMITS: readonly number[] = [401, 403];
const SERVER_ERROR = 500;

/** The page at `url`. The entries of the only descriptor are headers of the request. */
export function openHttp(url: string): Asked {
  return {
    name: url,
    ask: async ({ descriptors: [entries = []] }, timeoutMs): Promise<Answer | Lost> => {
      const headers = entries.map(({ key, value }): [string, string] => [key, value]);
      try {
        const response = await fetch(url, { headers, redirect: "manual", signal: AbortSignal.timeout(timeoutMs) });
        const { status } = response;
        await response.body?.cancel();
        if (status >= SERVER_ERROR || BEFORE_LIMITS.includes(status))
          return { outcome: "lost", why: `status ${status}` };
        return { outcome: status === TOO_MANY ? "refused" : "granted", told: [toldBy(response.headers)] };
      } catch (error) {
        return { outcome: "lost", why: whyOf(error) };
      }
    },
    reach: async () => true,
    close: () => undefined,
  };
}

/** What the headers of Envoy, or those of the draft for RateLimit headers, tell; or else Retry-After. */
function toldBy(headers: Headers): Told {
  const number = (...names: readonly string[]) => {
    const text = names.map((name) => /^\d+/.exec(headers.get(name) ?? "")?.[0]).find((one) => one !== undefined);
    return text === undefined ? undefined : Number(text);
  };
  const reset = number("x-ratelimit-reset", "ratelimit-reset", "retry-after");
  // By the page's own clock.
  const untilMs = dateMs(headers, "retry-after") - dateMs(headers, "date");
  const isDate = reset === undefined && !Number.isNaN(untilMs);
  return {
    quota: number("x-ratelimit-limit", "ratelimit-limit"),
    remaining: number("x-ratelimit-remaining", "ratelimit-remaining"),
    resetMs: isDate ? untilMs : reset && reset * 1_000,
    ...(isDate && { isDate }),
  };
}

/** A date in one of the three forms of RFC 9110, the last of which names no zone; NaN if it is something else. */
function dateMs(headers: Headers, name: string): number {
  const [text = ""] = /^[A-Z][a-z]+,? .*\d\d:\d\d:\d\d.*$/.exec(headers.get(name) ?? "") ?? [];
  return Date.parse(`${text} GMT`);
}

function whyOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}
