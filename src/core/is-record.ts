// Tells JSON objects from all else that JSON.parse returns.

/** True for an object with members: no list, not null. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
