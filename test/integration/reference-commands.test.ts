// `headgate client` and `headgate mirror` from the command line, against real services.

import { beforeAll, expect, test } from "vitest";
import { runProgram } from "../support/run-program.ts";
import { askOnce, openClient, startTestApp, type TestApp } from "../support/test-app.ts";

let app: TestApp;
beforeAll(async () => {
  app = await startTestApp(
    "domain: edge\ndescriptors:\n  - { key: user, rate_limit: { name: n, requests_per_unit: 1, unit: year } }\n",
  );
});

test("client prints the answer and ends with 0, over limit too", async () => {
  const args = ["client", "-dial_string", `127.0.0.1:${app.grpcPort}`, "-domain", "edge"];
  const first = await runProgram([...args, "-descriptors", "user=a", "-descriptors=other=b,more=c"]);
  expect([first.exitCode, first.out]).toEqual([0, expect.stringMatching(/^OK {2}domain edge/)]);
  expect(first.out).toContain("user=a\n  OK  n: 1 per year, 0 left");
  expect(first.out).toContain("other=b,more=c\n");
  const second = await runProgram([...args, "--descriptors=user=a"]);
  expect([second.exitCode, second.out]).toEqual([0, expect.stringMatching(/^OVER_LIMIT/)]);
});

test("client ends with 1 if nobody answers", async () => {
  const run = await runProgram(["client", "-dial_string", "127.0.0.1:1", "-domain", "edge", "-descriptors", "a=b"]);
  expect(run.exitCode).toBe(1);
  expect(run.err).toContain("UNAVAILABLE");
});

test("mirror serves until it is stopped, then prints its report", async () => {
  const target = `127.0.0.1:${app.grpcPort}`;
  const args = ["--answer-from", target, "--compare-with", target, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
  const { out } = await runProgram(["mirror", ...args, "--ignore", "headers,metadata"], {
    async untilStopped({ errText }) {
      const client = openClient(`127.0.0.1:${/grpc=127\.0\.0\.1:(\d+)/.exec(errText)?.[1]}`);
      await askOnce(client, { domain: "edge", descriptors: [{ entries: [{ key: "nobody", value: "x" }] }] });
      client.close();
    },
  });
  expect(out).toContain("1 compared: 1 equal, 0 different");
});
