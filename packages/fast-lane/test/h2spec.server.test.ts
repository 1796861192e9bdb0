// The fast lane before h2spec: framing, HPACK and semantics of HTTP/2. What fails, and why it may, is in
// test/h2spec/expected-failures.json; a failure listed there that no longer happens fails the test too.

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import expected from "../../../test/h2spec/expected-failures.json" with { type: "json" };
import { ECHO, startFastLaneRig } from "../../../test/support/fast-lane-rig.ts";
import { goTool } from "../../../test/support/go-tool.ts";
import { temporaryFolder } from "../../../test/support/temporary-folder.ts";

const h2spec = goTool("github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible");

/** Names of the cases that failed, as `package: description`, and how many there were in all. */
async function judge(program: string, port: number): Promise<{ failures: string[]; cases: number }> {
  const report = join(temporaryFolder("h2spec"), "report.xml");
  const args = ["-h", "127.0.0.1", "-p", String(port), "-o", "5", "-j", report];
  // It ends with 1 if any case failed; which ones is in the report.
  await new Promise((resolve) => execFile(program, args, resolve));
  const failures: string[] = [];
  let cases = 0;
  for (const found of readFileSync(report, "utf8").matchAll(
    /<testcase package="([^"]*)" classname="([^"]*)"[^>]*>(.*?)<\/testcase>/gs,
  )) {
    cases++;
    if (/<(failure|error)/.test(found[3] ?? "")) failures.push(`${found[1]}: ${found[2]}`);
  }
  return { failures, cases };
}

// Promise(grpc): HTTP/2 and HPACK are as specified, except what is listed with a reason.
test.skipIf(h2spec === undefined)(
  "h2spec finds only what is listed with a reason",
  async () => {
    const rig = await startFastLaneRig(ECHO, { maxConcurrentStreams: 100 });
    const { failures, cases } = await judge(h2spec ?? "", rig.server.port);
    expect(cases).toBeGreaterThan(140);
    expect(failures).toEqual(Object.keys(expected));
    expect(rig.failures).toEqual([]);
  },
  120_000,
);
