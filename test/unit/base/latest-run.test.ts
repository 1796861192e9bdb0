// Work of which only the newest request matters.

import { expect, test } from "vitest";
import { LatestRun } from "../../../src/base/latest-run.ts";

test("the last request is the last that runs, also if it comes from who hears first that a run has ended", async () => {
  const begun: string[] = [];
  const runs = new LatestRun<string, void>(async (request) => {
    begun.push(request);
    await Promise.resolve();
  });
  const third = runs.run("first").then(() => runs.run("third"));
  const second = runs.run("second");
  await Promise.all([second, third]);
  expect(begun).toEqual(["first", "third"]);
});
