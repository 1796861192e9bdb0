// The message and the code of a thrown value, which may be anything.

/** The message of an error; anything else as text. */
export function errorMessage(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The `code` that Node sets on system errors, such as ENOENT; undefined for errors without one. */
export function errorCode(thrown: unknown): string | undefined {
  return thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" ? thrown.code : undefined;
}
