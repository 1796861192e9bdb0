// Answers that are waited for no longer than a while, on a connection that is not in use yet.

/** What came instead of an answer within the time allowed. */
export class SilenceError extends Error {
  override readonly name = "SilenceError";
}

/** Rejects with a SilenceError when `promise` takes longer than `ms`. */
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
