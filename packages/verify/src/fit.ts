// Judges all limits of a plan together, and finds what the plan doesn't say: how far the service's clock, which begins
// windows, is from this machine's, and which algorithm counts.

import type { Call } from "./call.ts";
import { judge, type Statement, type Use } from "./judge.ts";
import { type Algorithm, algorithmsOf, hasEdges, type Limit } from "./limit.ts";

/** A limit and the calls that pay it, by caller. */
export interface Group {
  readonly name: string;
  readonly limit: Limit;
  /** Whether nobody paid it before. */
  readonly isFresh: boolean;
  readonly keys: ReadonlyMap<string, readonly Use[]>;
}

/** How a limit counts, and what broke it. */
export type Fit = ReturnType<typeof judgeGroup>;
/** All limits, judged by one reading of the service's clock. */
export type Fits = ReturnType<typeof judgeAll>;

/** A range of what the clock may be. */
interface Cell {
  readonly phaseMs: number;
  readonly widthMs: number;
}

/** Edges of windows lie within so many milliseconds: clocks of several servers differ, and clocks drift. */
export const EDGE_MS = 10;
/** Clocks are no further apart than half of this, or than the time after which the edges of all windows repeat. */
const APART_MS_MAX = 60_000;
/** Most cells that are judged, times calls. */
const WORK_MAX = 10_000_000;

/**
 * Tries this machine's clock first, then halves the range of possible clocks while a part has no fault, the nearest
 * part first.
 */
export function fitLimits(groups: readonly Group[]): Fits {
  const windows = groups.filter(({ limit }) => algorithmsOf(limit).some(hasEdges)).map(({ limit }) => limit.windowMs);
  const apartMs = windows.reduce(leastCommonMultiple, windows.length === 0 ? 0 : 1);
  let best = judgeAll(groups, { phaseMs: -EDGE_MS / 2, widthMs: EDGE_MS });
  const open: Cell[] = apartMs === 0 ? [] : [{ phaseMs: -apartMs / 2, widthMs: apartMs }];
  const uses = groups.flatMap(({ keys }) => [...keys.values()]).reduce((sum, { length }) => sum + length, 1);
  for (let left = Math.ceil(WORK_MAX / uses); best.faults > 0 && left > 0; left--) {
    const cell = open.sort((a, b) => awayMs(b) - awayMs(a)).pop();
    if (cell === undefined) break;
    const { phaseMs, widthMs } = cell;
    const found = judgeAll(groups, cell);
    const isSmall = widthMs <= EDGE_MS * 1.5;
    if (found.faults === 0 && !isSmall && left > 1) {
      // The halves overlap, so that each edge has its width within one of them.
      const half = widthMs / 2 + EDGE_MS / 4;
      open.push({ phaseMs: phaseMs + widthMs - half, widthMs: half }, { phaseMs, widthMs: half });
    } else if (found.faults === 0 || (isSmall && found.faults < best.faults)) best = found;
  }
  return best;
}

/** Of whole numbers, at most APART_MS_MAX. */
function leastCommonMultiple(a: number, b: number): number {
  let [divisor, rest] = [a, b];
  while (rest > 0) [divisor, rest] = [rest, divisor % rest];
  return Math.min(APART_MS_MAX, (a / divisor) * b);
}

/** How far all clocks of the cell are from this machine's. */
function awayMs({ phaseMs, widthMs }: Cell): number {
  return Math.max(0, phaseMs, -phaseMs - widthMs);
}

function judgeAll(groups: readonly Group[], cell: Cell) {
  const fits = groups.map((group) => {
    const tried = algorithmsOf(group.limit).map((algorithm) => {
      const fit = judgeGroup(group, algorithm, cell);
      return { fit, faults: fit.excesses.length + fit.lies.length + fit.roomyRefusals.length };
    });
    const fewest = Math.min(...tried.map(({ faults }) => faults));
    const best = tried.filter(({ faults }) => faults === fewest).map(({ fit }) => fit);
    return { ...(best[0] as Fit), algorithms: best.flatMap(({ algorithms }) => algorithms) };
  });
  const roomy = new Map<Call, number>();
  for (const call of fits.flatMap(({ roomyRefusals }) => roomyRefusals)) roomy.set(call, (roomy.get(call) ?? 0) + 1);
  const wrongRefusals = new Set([...roomy].filter(([call, times]) => times === call.limits).map(([call]) => call));
  const others = fits.reduce((sum, { excesses, lies }) => sum + excesses.length + lies.length, 0);
  return {
    /** Windows begin so much after this machine's. */
    phaseMs: cell.phaseMs + cell.widthMs / 2,
    /** One for each group. */
    fits,
    /** Calls that were refused although each of their limits had room. */
    wrongRefusals,
    faults: wrongRefusals.size + others,
  };
}

function judgeGroup({ keys, limit, isFresh }: Group, algorithm: Algorithm, cell: Cell) {
  const clock = hasEdges(algorithm) ? cell : { phaseMs: 0, widthMs: 0 };
  const findings = [...keys.values()].map((uses) => judge(uses, { limit, algorithm, isFresh, ...clock }));
  const remaining = findings.flatMap((one) => one.remaining);
  const waits = findings.flatMap((one) => one.waits);
  const roomy = findings.flatMap((one) => one.waitsOfRoomy);
  const waitStepMs = [...waits, ...roomy].every(({ told }) => told % 1_000 === 0) ? 1_000 : 1;
  const falseWaits = (all: readonly Statement[]) => all.filter((one) => isFalse(one, waitStepMs));
  // Services differ in what a refusal tells: until this call passes, or until all is free.
  const [first, second] = [falseWaits(waits), falseWaits(findings.flatMap((one) => one.waitsUntilFull))];
  return {
    /** All that fit equally well; the first one was judged by. */
    algorithms: [algorithm],
    excesses: findings.flatMap(({ excesses }) => excesses),
    roomyRefusals: findings.flatMap(({ roomyRefusals }) => roomyRefusals),
    /** False numbers in answers. */
    lies: [
      ...remaining.filter((one) => isFalse(one, 0)).map((one) => ({ ...one, about: "remaining" as const })),
      ...[...(first.length <= second.length ? first : second), ...falseWaits(roomy)].map((one) => ({
        ...one,
        about: "wait" as const,
      })),
    ],
    /** Calls that the limit is known to have refused. */
    refused: findings.reduce((sum, one) => sum + one.refused, 0),
    /** How many numbers were checked. */
    checked: { remaining: remaining.length, waits: waits.length + roomy.length },
    /** The precision of waits. */
    waitStepMs,
  };
}

/** Whether a number, which may be rounded up by `step`, lies outside its bounds. */
function isFalse({ told, least, most }: Statement, step: number): boolean {
  return told < least - Math.min(step, 1) || told > most + step;
}
