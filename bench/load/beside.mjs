// What a call costs in Headgate's way and in that of a stand-in, which does at the same store what others do
// (stand-ins.mjs): the same load on both in turn, round by round.

import { median, progress } from "../harness/report.mjs";
import { measureOnce, spreadOf } from "./measure.mjs";

/** What is compared: a figure of caller.mjs, per call. */
const MEASURES = {
  storeMicrosPerCall: "us of the store's CPU per call",
  cpuMicrosPerCall: "us of the process's CPU per call",
  p50Us: "us until the answer, p50",
};

/** Rows for a shape, one for each of its goals: both figures and the ratio, Headgate's over the stand-in's. */
export async function measureBeside(shape, { servers, rounds, seconds }) {
  const runs = { standIn: [], service: [] };
  for (let round = 1; round <= rounds; round++) {
    for (const who of Object.keys(runs)) {
      progress(`${shape.name}: ${who}, round ${round} of ${rounds}`);
      runs[who].push(await measureOnce(who, shape, { servers, seconds }));
    }
  }
  await servers.endShape();
  return Object.entries(shape.goals).map(([field, goalMost]) => {
    const [others, own] = [runs.standIn, runs.service].map((all) => all.map((run) => run[field]));
    return {
      name: shape.name,
      standIn: shape.standIn,
      what: MEASURES[field],
      goalMost,
      perSecond: Math.round(median(runs.service.map(({ perSecond }) => perSecond))),
      together: 1 / median(runs.service.map(({ redis }) => redis?.scripts ?? Number.NaN)),
      others: median(others),
      own: median(own),
      ...spreadOf(
        "ratio",
        own.map((value, round) => value / others[round]),
      ),
    };
  });
}
