// The exports of "@headgate/verify": verifies limits through a whole deployment. It knows limits only from the plan,
// and judges any service that speaks Envoy's protocol.

import { openGrpc } from "./ask-grpc.ts";
import { openHttp } from "./ask-http.ts";
import { assess, type Report } from "./assess.ts";
import type { Plan } from "./plan.ts";
import { runPlan } from "./run-plan.ts";

export type { Report } from "./assess.ts";
export type { Plan } from "./plan.ts";
export { readPlan } from "./read-plan.ts";
export { junitText, reportText } from "./report-text.ts";

const CONNECT_MS = 3_000;
/** Milliseconds since the Unix epoch that never step back. */
const now = () => performance.timeOrigin + performance.now();

/** Runs the plan. Text says why nothing could be verified. */
export async function verify(plan: Plan): Promise<Report | string> {
  const servers = plan.servers.map((server) => (plan.isHttp ? openHttp(server) : openGrpc(server, plan, now)));
  try {
    for (const server of servers) {
      if (!(await server.reach(CONNECT_MS))) return `can't connect to ${server.name} within ${CONNECT_MS / 1_000} s`;
    }
    const report = assess(plan, await runPlan(plan, servers, now));
    const [why] = report.lost.keys();
    return report.answered === 0 ? `${servers[0]?.name} answered none of ${report.calls} calls: ${why}` : report;
  } finally {
    for (const server of servers) server.close();
  }
}
