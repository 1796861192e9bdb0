// Checks of what callers pass in. A mistake is a TypeError that says what was expected, whatever the policy is.

/** Throws TypeError unless `value` is an object whose members are all in `names`. */
export function checkMembers(what: string, value: unknown, names: readonly string[]): void {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TypeError(`${what}: expected an object, got ${describeValue(value)}`);
  }
  for (const name of Object.keys(value)) {
    if (names.includes(name)) continue;
    throw new TypeError(`${what}: there is no ${JSON.stringify(name)}; expected ${names.join(", ")}`);
  }
}

/** Throws TypeError unless `value` is a whole number from `min` to `max`. */
export function checkWhole(what: string, value: unknown, min: number, max: number): void {
  if (Number.isInteger(value) && (value as number) >= min && (value as number) <= max) return;
  throw new TypeError(`${what}: expected a whole number from ${min} to ${max}, got ${describeValue(value)}`);
}

/** Throws TypeError unless `value` is undefined or has this type. */
export function checkType(what: string, value: unknown, type: "boolean" | "function"): void {
  if (value === undefined || typeof value === type) return;
  throw new TypeError(`${what}: expected a ${type}, got ${describeValue(value)}`);
}

/** The value in a few words. Text is cut, because it may be long or a secret. */
export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return value.length === 0 ? "an empty array" : "an array";
  if (typeof value === "string")
    return value.length > 60 ? `${JSON.stringify(value.slice(0, 57))}...` : JSON.stringify(value);
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return String(value);
  return typeof value === "function" ? "a function" : `an ${typeof value}`;
}
