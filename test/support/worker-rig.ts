// The built service with several workers on a real Redis, and what it says of itself.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type ServiceProcess, startService } from "./service-process.ts";
import { temporaryFolder } from "./temporary-folder.ts";

export const RULES = `
domain: edge
descriptors:
  - { key: user, rate_limit: { requests_per_unit: 100, unit: hour, algorithm: fixed_window } }
  - { key: free, rate_limit: { requests_per_unit: 1000000000, unit: hour } }
  - { key: leased, rate_limit: { requests_per_unit: 100, unit: hour, algorithm: fixed_window, sync: lease } }
`;

const HTTP_MS_MAX = 5_000;

/** A worker as `/config` shows it. */
export interface ShownWorker {
  readonly worker: number;
  readonly status: string;
  readonly connections: number;
  readonly open_streams: number;
  readonly calls?: number;
}

export interface WorkerRig extends ServiceProcess {
  readonly target: string;
  readonly rulesFile: string;
  http(path: string): Promise<Response>;
  /** Undefined if there are none. */
  workers(): Promise<readonly ShownWorker[]>;
  /** The value of a series, by the text before it; undefined if it is not shown. */
  metric(series: string): Promise<number | undefined>;
}

/** Starts it with two workers unless `env` says otherwise. */
export async function startWorkers(env: Readonly<Record<string, string>>): Promise<WorkerRig> {
  const rulesDir = temporaryFolder("headgate-rules");
  const rulesFile = join(rulesDir, "rules.yaml");
  await writeFile(rulesFile, RULES);
  // A slow machine must not have calls answered without the store: these tests count.
  const service = await startService({ RULES_DIR: rulesDir, WORKERS: "2", STORE_DEADLINE: "10s", ...env });
  // Without a bound fetch waits for ever if its connection ends before the request is written, as one does that no worker takes.
  const http = (path: string) =>
    fetch(`http://127.0.0.1:${service.httpPort}${path}`, { signal: AbortSignal.timeout(HTTP_MS_MAX) });
  return {
    ...service,
    rulesFile,
    target: `127.0.0.1:${service.grpcPort}`,
    http,
    async workers() {
      const config = (await (await http("/config")).json()) as { workers?: readonly ShownWorker[] };
      return config.workers ?? [];
    },
    async metric(series) {
      const line = (await (await http("/metrics")).text()).split("\n").find((each) => each.startsWith(`${series} `));
      return line === undefined ? undefined : Number(line.slice(series.length + 1));
    },
  };
}
