// The families of rate limit headers that answers may carry, as RESPONSE_HEADERS names them.

export const HEADER_DIALECTS = ["ratelimit", "structured", "x-ratelimit"] as const;
export type HeaderDialect = (typeof HEADER_DIALECTS)[number];
