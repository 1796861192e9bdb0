// The message and the code of a thrown value, which may be anything; errors that are an answer.

/** The message of an error; anything else as text. */
export function errorMessage(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** What `work` returns; undefined if it throws an error of this kind. */
export function unlessThrown<T>(kind: new (message: string) => Error, work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof kind) return undefined;
    throw error;
  }
}

const FILE_TROUBLES: Readonly<Record<string, string>> = {
  EACCES: "permission denied",
  EEXIST: "it exists already",
  EISDIR: "it is a directory",
  ELOOP: "its links form a loop",
  ENOENT: "it does not exist",
  ENOTDIR: "it is not a directory",
  Z_DATA_ERROR: "it is damaged or not gzip",
};

/** Why a file or a directory can't be read or written, without its name; of other errors the message. */
export function fileTrouble(thrown: unknown): string {
  return FILE_TROUBLES[errorCode(thrown) ?? ""] ?? errorMessage(thrown);
}

/** The `code` that Node sets on system errors, such as ENOENT; undefined for errors without one. */
export function errorCode(thrown: unknown): string | undefined {
  return thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" ? thrown.code : undefined;
}
