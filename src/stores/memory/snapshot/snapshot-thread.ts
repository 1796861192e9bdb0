// Thread of one snapshot job.

import { parentPort, workerData } from "node:worker_threads";
import { doSnapshotJob, type SnapshotJob } from "./snapshot-job.ts";

parentPort?.postMessage(doSnapshotJob(workerData as SnapshotJob));
