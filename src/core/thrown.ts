// What was thrown, which may be anything: its message, and the code that Node or the system gave it.

/** The message of an error; anything else as text. */
export function errorMessage(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** ENOENT and the like, as Node sets `code`; undefined for errors without one. */
export function errorCode(thrown: unknown): string | undefined {
  return thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" ? thrown.code : undefined;
}
