// Asks several servers the same question and takes the first answer, without asking all of them if one is enough.

/** After this time without an answer the next server is asked too. */
const STAGGER_MS = 150;

/**
 * Asks one server after another: the next one when the last has failed, or has been silent for STAGGER_MS. Rejects with
 * the first error if all fail. `onError` gets every error.
 */
export function firstAnswer<T>(
  askers: readonly (() => Promise<T>)[],
  onError: (error: unknown) => void = () => undefined,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let firstError: unknown = new Error("nobody to ask");
    let failed = 0;
    let next = 0;
    let isDone = false;
    let timer: NodeJS.Timeout | undefined;
    const askNext = () => {
      clearTimeout(timer);
      const ask = askers[next++];
      if (ask === undefined || isDone) return;
      if (next < askers.length) timer = setTimeout(askNext, STAGGER_MS);
      ask().then(
        (answer) => {
          isDone = true;
          clearTimeout(timer);
          resolve(answer);
        },
        (error: unknown) => {
          onError(error);
          if (failed++ === 0) firstError = error;
          if (failed === askers.length) reject(firstError);
          else askNext();
        },
      );
    };
    if (askers.length === 0) reject(firstError);
    else askNext();
  });
}
