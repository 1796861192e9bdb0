// The order of test files: the longest first, so that none of them runs last and alone. Vitest knows how long a file took where
// it ran before, which a fresh clone has not.

import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

// Those with servers that take more than ten seconds. What measures turns of the event loop runs while others wait.
const LONGEST = [
  "test/integration/runtime-limits.test.ts",
  "test/fault/redis-cluster.test.ts",
  "test/fault/network.test.ts",
  "test/integration/starting.test.ts",
  "test/fault/clients-network.test.ts",
  "test/vectors/vectors.server.test.ts",
  "test/fault/store-replies.test.ts",
  "test/fault/store-away.test.ts",
  "test/fault/overload.test.ts",
  "test/integration/secrets.test.ts",
  "test/fault/redis-sentinel.test.ts",
  "test/integration/hot-keys.test.ts",
];

/** Begins with the files of the list; the others come as Vitest has them. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const placeOf = (file: TestSpecification): number => {
      const place = LONGEST.indexOf(relative(this.ctx.config.root, file.moduleId));
      return place === -1 ? LONGEST.length : place;
    };
    const groupOf = (file: TestSpecification): number => file.project.config.sequence.groupOrder;
    return sorted.sort((a, b) => groupOf(a) - groupOf(b) || placeOf(a) - placeOf(b));
  }
}
