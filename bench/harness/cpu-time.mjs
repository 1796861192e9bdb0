// CPU time that a process has used, as the scheduler counts it: what others take from the machine is not in it.

import { readdirSync, readFileSync } from "node:fs";

/** Microseconds over all threads; NaN where there is no /proc. */
export function cpuMicrosOf(pid) {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    const nanos = threads.map((id) => Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, "utf8").split(" ")[0]));
    return nanos.reduce((sum, of) => sum + of, 0) / 1_000;
  } catch {
    return Number.NaN;
  }
}
