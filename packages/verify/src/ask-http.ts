// Requests a page behind a limiting proxy such as Envoy: 429 is a refusal; 401, 403 and 5xx are no answer; all else is
// a grant.

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

/** Reads Envoy's headers, those of the RateLimit draft, or else Retry-After in seconds. */
function toldBy(headers: Headers): Told {
  const number = (...names: readonly string[]) => {
    const text = names.map((name) => /^\d+/.exec(headers.get(name) ?? "")?.[0]).find((one) => one !== undefined);
    return text === undefined ? undefined : Number(text);
  };
  const reset = number("x-ratelimit-reset", "ratelimit-reset", "retry-after");
  return {
    quota: number("x-ratelimit-limit", "ratelimit-limit"),
    remaining: number("x-ratelimit-remaining", "ratelimit-remaining"),
    resetMs: reset && reset * 1_000,
  };
}

function whyOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}
