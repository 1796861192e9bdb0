// The contract of stores and of the algorithms, held by the store on a real Redis Cluster.

import { afterAll, beforeAll } from "vitest";
import { ClusterRig } from "../support/redis-cluster.ts";
import { describeAlgorithmContract } from "./algorithm.contract.ts";
import { describeHoldsContract } from "./holds.contract.ts";
import { clusterHarness } from "./redis-harness.ts";
import { describeStoreContract } from "./store.contract.ts";

let rig: ClusterRig;
beforeAll(async () => {
  rig = await ClusterRig.start({ replicas: false });
});
afterAll(() => rig.stop());

describeStoreContract("cluster store", () => clusterHarness(rig));
describeHoldsContract("cluster store", () => clusterHarness(rig));
describeAlgorithmContract("cluster store", () => clusterHarness(rig));
