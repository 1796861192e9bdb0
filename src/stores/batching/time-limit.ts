// Bounds the wait for answers on a connection that is not in use yet.

/** There was no answer within the time limit. */
export class SilenceError extends Error {
  override readonly name = "SilenceError";
}

/** Rejects with SilenceError if `promise` takes longer than `ms` milliseconds. */
export async function withTimeLimit<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new SilenceError(`no answer within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, silence]);
  } finally {
    clearTimeout(timer);
  }
}
