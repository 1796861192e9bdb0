// The drawn pictures of the docs, as SVG that follows the reader's light or dark scheme. What they show is what the limiter answered
// on a memory store while a clock was moved by hand; only the calls and the words are chosen here.

import { divideDown } from "../../src/base/units.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { LimiterRig } from "./limiter-rig.ts";

const WIDTH = 900;
const STYLE = `
  .paper { fill: #ffffff } text { fill: #1f2328 } .faint { fill: #59636e } .grid { stroke: #d9dee3 } .edge { stroke: #59636e; stroke-dasharray: 4 3 }
  .passed { fill: #2f6fb3 } .refused { fill: #c4622d } .held { fill: #84aed8 } .late { stroke: #c4622d; stroke-width: 3 } .end { stroke: #1f2328; stroke-width: 3 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } text { fill: #e6edf3 } .faint { fill: #9198a1 } .grid { stroke: #2b323b } .edge { stroke: #9198a1 }
    .passed { fill: #4a8fd6 } .refused { fill: #d9773f } .held { fill: #35577d } .late { stroke: #d9773f } .end { stroke: #e6edf3 }
  }`;

function picture(title: string, height: number, parts: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13">
<title>${title}</title>
<style>${STYLE}
</style>
<rect class="paper" width="100%" height="100%" rx="6"/>
<text x="20" y="32" font-size="17" font-weight="600">${title}</text>
${parts.join("\n")}
</svg>
`;
}

type Anchor = "start" | "middle" | "end";

function words(x: number, y: number, text: string, kind = "", anchor: Anchor = "start"): string {
  return `<text class="${kind}" x="${x}" y="${y}" text-anchor="${anchor}">${text}</text>`;
}

function box(kind: string, x: number, y: number, width: number, height: number): string {
  return `<rect class="${kind}" x="${x}" y="${y}" width="${width}" height="${height}" rx="1"/>`;
}

function upright(kind: string, x: number, top: number, bottom: number): string {
  return `<line class="${kind}" x1="${x}" y1="${top}" x2="${x}" y2="${bottom}"/>`;
}

/** A time as 1:05, from seconds. */
function clockTime(seconds: number): string {
  return `${divideDown(seconds, 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

function rigOf(rules: string): LimiterRig {
  return new LimiterRig(rules, { openStore: (clock) => new MemoryStore({ clock }) });
}

const ALGORITHMS = [
  ["fixed_window", "fixed window"],
  ["sliding_window", "sliding window"],
  ["token_bucket", "token bucket"],
  ["sliding_log", "sliding log"],
] as const;

/** Seconds of a caller that asks once in each. Before the first it was idle. */
const ASKED = Array.from({ length: 80 }, (_, i) => 50 + i);

/** Seconds of the calls that pass ten per minute. */
function passesOf(algorithm: string): readonly number[] {
  const rig = rigOf(`
domain: edge
descriptors: [{ key: a, rate_limit: { requests_per_unit: 10, unit: minute, algorithm: ${algorithm} } }]
`);
  rig.clock.advanceSeconds(ASKED[0] as number);
  return ASKED.filter(() => {
    const isOver = rig.hit({ a: "b" }).over;
    rig.clock.advanceSeconds(1);
    return !isOver;
  });
}

/** The most passes in any so many seconds. */
function mostIn(seconds: number, passes: readonly number[]): number {
  return Math.max(...passes.map((from) => passes.filter((at) => at >= from && at < from + seconds).length));
}

/** What each algorithm lets pass around the edges of windows. */
export function drawWindowEdges(): string {
  const x = (second: number) => 130 + (second - 45) * 7;
  const [top, row] = [94, 40];
  const bottom = top + ALGORITHMS.length * row;
  const edges = [60, 120].map((at) => upright("edge", x(at) - 1.5, top - 12, bottom));
  const times = [50, 60, 70, 80, 90, 100, 110, 120].map((at) =>
    words(x(at) + 2, bottom + 18, clockTime(at), "faint", "middle"),
  );
  const rows = ALGORITHMS.flatMap(([algorithm, name], i) => {
    const passes = passesOf(algorithm);
    const foot = top + i * row + 26;
    const bars = (kind: string, height: number, at: readonly number[]) =>
      `<path class="${kind}" d="${at.map((second) => `M${x(second)} ${foot}v-${height}h5v${height}z`).join("")}"/>`;
    const refused = ASKED.filter((second) => !passes.includes(second));
    const most = [20, 60].map((seconds, column) =>
      words(790 + column * 70, foot - 4, String(mostIn(seconds, passes)), "", "middle"),
    );
    return [words(20, foot - 4, name), bars("passed", 22, passes), bars("refused", 4, refused), ...most];
  });
  return picture("10 per minute, asked once a second from 0:50 on", bottom + 32, [
    `${box("passed", 20, 48, 5, 14)}${words(32, 60, "passes", "faint")}${box("refused", 94, 58, 5, 4)}${words(106, 60, "refused", "faint")}${words(180, 60, "dashed: a minute begins", "faint")}`,
    `${words(825, 60, "most that pass in any", "faint", "middle")}${words(790, 78, "20 s", "faint", "middle")}${words(860, 78, "60 s", "faint", "middle")}`,
    ...edges,
    ...times,
    ...rows,
  ]);
}

const HOLD_RULES = `
domain: llm
descriptors:
  - key: tenant
    hold: { id: request_id, estimate: max_tokens, ttl: 60s }
    rate_limit: { requests_per_unit: 10000, unit: day, algorithm: fixed_window }
`;

interface HoldStep {
  readonly second: number;
  readonly id: string;
  /** Of a settlement: what was used. Undefined: the call begins and holds 4,000. */
  readonly used?: number;
}
/** A call that is settled below its hold, one that nobody settles, one that is refused at first and settled above its hold. */
const HOLD_STEPS: readonly HoldStep[] = [
  { second: 5, id: "a" },
  { second: 15, id: "b" },
  { second: 25, id: "c" },
  { second: 40, id: "a", used: 1_500 },
  { second: 50, id: "c" },
  { second: 90, id: "c", used: 5_000 },
];
const HOLD_SECONDS = 100;

/** What is left in each second, and the seconds of refusals. */
function runHolds(): { readonly left: readonly number[]; readonly refused: readonly number[] } {
  const rig = rigOf(HOLD_RULES);
  const refused: number[] = [];
  const left = Array.from({ length: HOLD_SECONDS + 1 }, (_, second) => {
    for (const { id, used } of HOLD_STEPS.filter((step) => step.second === second)) {
      const entries = { tenant: "acme", request_id: id, max_tokens: "4000" };
      const asked = used === undefined ? { entries } : { entries: { ...entries, settle: "used" }, hits: used };
      if (rig.ask([asked], 0, "llm").over) refused.push(second);
    }
    const answer = rig.ask([{ entries: { tenant: "acme" }, hits: 0 }], 0, "llm");
    rig.clock.advanceSeconds(1);
    return answer.statuses[0]?.remaining ?? 0;
  });
  return { left, refused };
}

const thousands = (tokens: number) => tokens.toLocaleString("en");

/** Three calls that hold tokens of one budget, and what is left of it meanwhile. */
export function drawHolds(): string {
  const { left, refused } = runHolds();
  const x = (second: number) => 100 + second * 7.5;
  const lane = (i: number) => 58 + i * 50;
  const call = (i: number, from: number, to: number, name: string) =>
    words(20, lane(i) + 17, name) + box("held", x(from), lane(i), x(to) - x(from), 24);
  const note = (i: number, second: number, text: string, anchor: Anchor = "start") =>
    words(x(second) + (anchor === "end" ? -8 : 8), lane(i) + 17, text, "", anchor);
  const change = (second: number) => thousands(Math.abs((left[second] ?? 0) - (left[second - 1] ?? 0)));
  const ends = left.findIndex((tokens, second) => second > 60 && tokens > (left[second - 1] ?? 0));
  const [ceiling, floor] = [218, 318];
  const y = (tokens: number) => floor - (tokens / 10_000) * (floor - ceiling);
  const steps = left.flatMap((tokens, second) => {
    if (second > 0 && tokens === left[second - 1]) return [];
    const next = left.findIndex((later, at) => at > second && later !== tokens);
    const until = next < 0 ? HOLD_SECONDS : next;
    return [
      box("passed", x(second), y(tokens), x(until) - x(second), floor - y(tokens)),
      words(x(second) + 3, y(tokens) - 5, thousands(tokens)),
    ];
  });
  return picture("Three calls that hold 4,000 of 10,000 tokens each; ttl: 60s", floor + 34, [
    ...[0, 20, 40, 60, 80, 100].flatMap((at) => [
      upright("grid", x(at), 50, floor),
      words(x(at), floor + 20, `${at} s`, "faint", "middle"),
    ]),
    call(0, 5, 40, "call a"),
    note(0, 5, "holds 4,000, runs"),
    upright("end", x(40), lane(0) - 4, lane(0) + 28),
    note(0, 40, `settled, used 1,500: ${change(40)} come back`),
    call(1, 15, ends, "call b"),
    note(1, 15, "holds 4,000; nobody settles"),
    upright("late", x(ends), lane(1) - 4, lane(1) + 28),
    note(1, ends, `ttl over: ${change(ends)} come back`),
    call(2, 50, 90, "call c"),
    ...refused.map((at) => upright("late", x(at), lane(2) - 4, lane(2) + 28) + note(2, at, "refused", "end")),
    note(2, 50, "passes now, holds 4,000"),
    upright("end", x(90), lane(2) - 4, lane(2) + 28),
    words(x(90) + 8, lane(2) + 7, "settled, used"),
    words(x(90) + 8, lane(2) + 23, `${change(90)} more`),
    words(20, ceiling + 40, "left of the"),
    words(20, ceiling + 56, "budget"),
    ...steps,
  ]);
}
