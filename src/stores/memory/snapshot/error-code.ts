// What the system calls an error of its own.

/** ENOENT and the like; undefined for errors of others. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}
