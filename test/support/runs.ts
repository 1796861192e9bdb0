// How much the generated tests do. TEST_TIMES is the one knob: 1, the full number, unless it is set; `npm run check` and `npm test`
// set less, `npm run fuzz` fifty times as much.

const FACTOR = readFactor(process.env.TEST_TIMES);

/** How many runs to make where `full` are made in a full run of the tests; at least one. */
export function runs(full: number): number {
  return Math.max(1, Math.round(full * FACTOR));
}

/** How long a test may take whose full run takes `fullMs` at most on a slow machine. */
export function runsMs(fullMs: number): number {
  return fullMs * Math.max(1, FACTOR);
}

function readFactor(text: string | undefined): number {
  const factor = Number(text ?? 1);
  if (!(factor > 0)) throw new Error(`TEST_TIMES: expected a number above 0, got ${text}`);
  return factor;
}
