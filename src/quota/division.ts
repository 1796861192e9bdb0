// Divides a rate among Envoys by demand: max-min, so that nobody gets less for what another one wants more. Pure
// arithmetic on tokens per minute, whole numbers.

/** One Envoy's part of a bucket, as far as dividing needs it. */
export interface Demand {
  /** Requests per minute, refused ones too; Infinity before the first report. */
  readonly demand: number;
  /** Whether requests were refused. */
  readonly isHungry: boolean;
}

/** Room for demand that grows until the next report: so many times what was asked. */
const ROOM = 1.25;
/** The same while others are refused. */
const ROOM_SCARCE = 1.04;
/** The same for those that are refused: they will ask for more once they get more. */
const ROOM_HUNGRY = 2;

/**
 * The parts of `demands` in `rate`. Each gets at least `floor`, or an equal part if that is less; then what it needs;
 * if all have that, those that were refused something share what they may need in addition; and then the others.
 * Rounded down: the sum is at most `rate`.
 */
export function divideRate(rate: number, floor: number, demands: readonly Demand[]): readonly number[] {
  let parts: readonly number[] = new Array<number>(demands.length).fill(0);
  let left = rate;
  for (const wish of [
    ({ demand, isHungry }: Demand) => Math.max(floor, Math.ceil(demand * (isHungry ? 1 : ROOM_SCARCE))),
    ({ demand, isHungry }: Demand) => (isHungry ? Math.ceil(demand * ROOM_HUNGRY) : 0),
    ({ demand }: Demand) => Math.ceil(demand * ROOM),
  ]) {
    const before = parts;
    const more = fill(
      left,
      demands.map((each, i) => Math.max(0, wish(each) - (before[i] as number))),
    );
    parts = before.map((part, i) => part + (more.parts[i] as number));
    left = more.left;
    if (left === 0) return parts;
  }
  return parts;
}

/** Raises each part towards its need, the lowest first, until `rate` is used up. */
function fill(rate: number, needs: readonly number[]): { readonly parts: readonly number[]; readonly left: number } {
  const order = needs.map((_, i) => i).sort((a, b) => (needs[a] as number) - (needs[b] as number));
  const parts = new Array<number>(needs.length).fill(0);
  let left = rate;
  let count = order.length;
  for (const i of order) {
    const part = Math.min(needs[i] as number, Math.floor(left / count));
    parts[i] = part;
    left -= part;
    count--;
  }
  return { parts, left };
}

/**
 * Whole tokens that each part may hold, at least one each, in proportion to the parts' rates. The sum is at most
 * `tokens`, which is at least the number of parts.
 */
export function divideTokens(tokens: number, rates: readonly number[]): readonly number[] {
  const sum = rates.reduce((all, rate) => all + rate, 0);
  const free = tokens - rates.length;
  return rates.map((rate) => 1 + (sum === 0 ? 0 : Math.floor((free / sum) * rate)));
}
