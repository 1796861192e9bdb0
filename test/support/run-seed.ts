// The seed by which tests draw what no property draws: moments of faults, and parts of long lists of cases. Another one in each run, but not at
// the gate, which must say the same of the same code twice. A test that fails prints it; TEST_SEED draws by it again.

const GATE_SEED = 20261121;
const { TEST_SEED, CI } = process.env;

/** Undefined: any. */
export const GIVEN_SEED = TEST_SEED === undefined ? (CI === undefined ? undefined : GATE_SEED) : Number(TEST_SEED);
const seed = GIVEN_SEED ?? Math.floor(Math.random() * 2 ** 31);
let hasDrawn = false;

/** The run's seed, for a generator of the caller's own. */
export function runSeed(): number {
  hasDrawn = true;
  return seed;
}

/** A line for a test that failed; empty if nothing was drawn by the seed. */
export function saidSeed(): string {
  return hasDrawn ? `drawn by TEST_SEED=${seed}\n` : "";
}
