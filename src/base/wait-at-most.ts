// Waits for a promise for a limited time.

/**
 * True once `work` is done; false if it takes longer than `ms`, and `work` then goes on. Rejects if `work` rejects
 * within `ms`.
 */
export async function waitAtMost(ms: number, work: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
