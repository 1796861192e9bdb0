// What tests start ends with them: what a test has started, its beforeEach included, when the test ends, all else with the file. Whoever
// starts something says here how it ends, so that no test has to.

const ofTests: (() => unknown)[] = [];
const ofFile: (() => unknown)[] = [];
let testsUnderWay = 0;

/**
 * Has `end` called when the test ends, or the file if no test runs yet, before what was started earlier. The function returned calls
 * it before that; it is called once.
 */
export function endWithTest<T>(end: () => T): () => T {
  let ended: { readonly result: T } | undefined;
  const endOnce = () => {
    ended ??= { result: end() };
    return ended.result;
  };
  (testsUnderWay > 0 ? ofTests : ofFile).push(endOnce);
  return endOnce;
}

/** The same for what can be closed. */
export function closedWithTest<C extends { close(): unknown }>(opened: C): C {
  endWithTest(() => opened.close());
  return opened;
}

/** Called by the first hook of each test. */
export function testBegins(): void {
  testsUnderWay++;
}

/** Called by the last hook of each test. What tests have started that run at the same time ends with the last of them. */
export async function testEnds(): Promise<void> {
  if (--testsUnderWay === 0) await endAll(ofTests);
}

/** Called by the last hook of each file. */
export async function fileEnds(): Promise<void> {
  await endAll(ofFile);
}

async function endAll(ends: (() => unknown)[]): Promise<void> {
  for (const end of ends.splice(0).reverse()) await end();
}
