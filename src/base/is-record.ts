// Tells JSON objects from the other values that JSON.parse returns.

import { unlessThrown } from "./thrown.ts";

/** True for an object that is neither an array nor null. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The object that a JSON text is; undefined for other values and for text that is no JSON. */
export function readRecord(text: string): Record<string, unknown> | undefined {
  const value: unknown = unlessThrown(SyntaxError, () => JSON.parse(text));
  return isRecord(value) ? value : undefined;
}
