// Where Headgate differs from the recorded service on purpose, and why. Beyond this, codes and texts of errors are
// Headgate's own everywhere. docs/migrating.md tells operators the same.

/**
 * One reason and what it makes different, by the name of the case: some of its steps, or anything if none is named.
 * A step with a question mark differs or not, as the moment will have it.
 */
export interface Deviation {
  readonly why: string;
  readonly where: Readonly<Record<string, readonly string[]>>;
}

export const DEVIATIONS: readonly Deviation[] = [
  {
    why: "Health tells the truth: a process without usable rules, or without the Redis that calls need, is not ready, under every name.",
    where: {
      "bad first configuration: the service runs without one": ["step 6", "step 7", "step 8"],
      "health with HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED and no files": ["step 3"],
      "Redis down with REDIS_HEALTH_CHECK_ACTIVE_CONNECTION": ["step 4?", "step 5?", "step 9"],
      "Redis down for long: calls wait for their own deadline": ["step 7", "step 8"],
    },
  },
  {
    why: "A call that can't be decided for want of rules or of the store is 503 over HTTP: 400 would be the caller's mistake.",
    where: { "bad first configuration: the service runs without one": ["step 5"] },
  },
  {
    why: "A dead Redis is an error at once, over HTTP too, where the recorded service lets callers wait without end.",
    where: { "Redis down for long: calls wait for their own deadline": ["step 6"] },
  },
  {
    why: "Hits of 2^63 and more count as very many. There they lower the counter, which hands out unlimited room.",
    where: {
      "descriptor hits beyond the signed 64-bit limit": [],
      "descriptor hits beyond the signed 64-bit limit refund": [],
      "stop-increment: hits beyond the signed 64-bit limit": [],
    },
  },
  {
    why: "is_negative_hits gives hits back, as it does in later versions of the service; the recorded one does not know it.",
    where: {
      "is_negative_hits is newer than the recorded version: ignored": [],
      "/json bodies that are refused": ["step 21"],
    },
  },
  {
    why: "Headgate has pages of its own on the HTTP port, /rlconfig among them, and answers health by the service's full name too.",
    where: { "/healthcheck and unknown paths": ["step 6", "step 7", "step 8", "step 12"] },
  },
];

/** One row per case that differs. */
export const DEVIATING_CASES = DEVIATIONS.flatMap(({ why, where }) =>
  Object.entries(where).map(([name, places]) => ({ name, why, places })),
);

/** True if the case may differ in what the line says. */
export function isMeant(caseName: string, line: string): boolean {
  return DEVIATING_CASES.some(
    ({ name, places }) =>
      name === caseName &&
      (places.length === 0 || places.some((place) => line.startsWith(`${place.replace("?", "")}:`))),
  );
}
