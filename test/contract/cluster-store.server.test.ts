// The contract of stores, held by the store on a real Redis Cluster. Its scripts are those of one Redis, which keeps the other
// contracts, with every algorithm; test/property/cluster-agrees.server.test.ts holds all of them against memory.

import { beforeAll } from "vitest";
import { ClusterRig } from "../support/redis-cluster.ts";
import { clusterHarness } from "./redis-harness.ts";
import { describeStoreContract, ONE_LIMIT } from "./store.contract.ts";

let rig: ClusterRig;
beforeAll(async () => {
  rig = await ClusterRig.start({ replicas: false });
});

describeStoreContract("cluster store", () => clusterHarness(rig), ONE_LIMIT);
