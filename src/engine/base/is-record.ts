// Tells JSON objects from the other values that JSON.parse returns.

/** True for an object that is neither an array nor null. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
