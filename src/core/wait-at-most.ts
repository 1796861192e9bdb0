// Waits for work that may take longer than anybody wants to wait.

/** True once `work` is done; false if it is not within `ms`, and it goes on then. Rejects as `work` does within that time. */
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
