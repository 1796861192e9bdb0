// `headgate verify` from the command line against Headgate. Wrong and right servers: verify.long.test.ts, packages/verify/test.

import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { openHttp } from "../../packages/verify/src/ask-http.ts";
import { runFault } from "../../packages/verify/src/run-plan.ts";
import { PROGRAM } from "../support/built-program.ts";
import { Authority } from "../support/certificates.ts";
import { listen } from "../support/listen.ts";
import { runProgram } from "../support/run-program.ts";
import { startService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const now = () => performance.timeOrigin + performance.now();

describe("headgate verify", () => {
  test("prints a report of Headgate, and ends with 0 if the limit holds and with 1 if not", async () => {
    const rules = "domain: d\ndescriptors: [{ key: k, rate_limit: { tokens_per_second: 20, burst: 40 } }]\n";
    const { grpcPort } = await startService({}, { rules });
    const junit = join(temporaryFolder("junit"), "out.xml");
    const ask = (limit: string) =>
      runProgram(
        `verify --server 127.0.0.1:${grpcPort} --domain d k=* --limit ${limit} --for 2s --seed 5 --junit ${junit}`,
      );
    const right = await ask("20/s --burst 40");
    expect(right).toMatchObject({ exitCode: 0, err: "" });
    expect(right.out).toMatch(/^\d+ calls to 127\.0\.0\.1:\d+ in 2 s, seed 5\n/);
    expect(right.out).toMatch(/k=\* {2}20\/s, burst 40\n {2}\d+ hits granted; the limit allows \d+ to \d+\./);
    expect(right.out).toMatch(/\nholds\n$/);
    const wrong = await ask("10/s --burst 40");
    expect(wrong.exitCode).toBe(1);
    expect(wrong.out).toMatch(/WRONG: \d+ grants beyond the limit, the first by .* hits, the first at .* s/);
    expect(readFileSync(junit, "utf8")).toContain('tests="1" failures="1"');
  });

  test.each([
    [{ "x-ratelimit-limit": "20, 20;w=1", "x-ratelimit-reset": "2", "retry-after": "3" }, 20, 2_000],
    [{ "ratelimit-limit": "20", "ratelimit-reset": "2" }, 20, 2_000],
    [{ "retry-after": "3" }, undefined, 3_000],
    [{ "retry-after": "Fri, 27 Nov 2026 22:00:03 GMT" }, undefined, undefined],
  ])("reads how long a page has its callers wait: %j", async (headers, quota, resetMs) => {
    const port = await listen(createServer((_, answer) => answer.writeHead(429, headers).end()));
    const question = { domain: "", descriptors: [[]], cost: 1, isRefund: false };
    const answer = await openHttp(`http://127.0.0.1:${port}`).ask(question, 10_000);
    expect(answer).toEqual({ outcome: "refused", told: [{ quota, resetMs, remaining: undefined }] });
  });

  test.each([
    [401, "lost"],
    [403, "lost"],
    [404, "granted"],
    [429, "refused"],
    [502, "lost"],
  ])("takes status %i of a page as %s", async (status, outcome) => {
    const port = await listen(createServer((_, answer) => answer.writeHead(status).end()));
    const question = { domain: "", descriptors: [[]], cost: 1, isRefund: false };
    expect(await openHttp(`http://127.0.0.1:${port}`).ask(question, 10_000)).toMatchObject({ outcome });
  });

  test("calls a server with TLS that asks for a client certificate", async () => {
    const authority = new Authority();
    const [{ certFile, keyFile }, client] = [authority.issue("localhost"), authority.issue("verify")];
    const rules = "domain: d\ndescriptors: [{ key: k, rate_limit: { tokens_per_second: 20, burst: 40 } }]\n";
    const tls = {
      GRPC_SERVER_USE_TLS: "true",
      GRPC_SERVER_TLS_CERT: certFile,
      GRPC_SERVER_TLS_KEY: keyFile,
      GRPC_CLIENT_TLS_CACERT: authority.certFile,
    };
    const { grpcPort } = await startService(tls, { rules });
    const own = `--cert ${client.certFile} --key ${client.keyFile}`;
    const words = `verify --server https://127.0.0.1:${grpcPort} ${own} --domain d k=* --limit 20/s --burst 40 --for 2s`;
    const env = { ...process.env, GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: authority.certFile };
    const { stdout } = await promisify(execFile)(process.execPath, [...PROGRAM, ...words.split(" ")], { env });
    expect(stdout).toMatch(/\nholds\n$/);
  });

  test("ends with 2 if it can't reach the limit", async () => {
    const rules = "domain: d\ndescriptors: [{ key: k, rate_limit: { tokens_per_second: 100000, burst: 200000 } }]\n";
    const { grpcPort } = await startService({}, { rules });
    const words = `verify --server 127.0.0.1:${grpcPort} --domain d k=* --limit 100000/s --burst 200000 --for 1s`;
    const junit = join(temporaryFolder("junit"), "out.xml");
    const { out, exitCode } = await runProgram(`${words} --junit ${junit}`);
    expect(out).toMatch(/ {2}nothing was refused\n\nNOT PROVEN: a limit was never reached/);
    expect(exitCode).toBe(2);
    expect(readFileSync(junit, "utf8")).toMatch(
      /tests="1" failures="0" errors="1".*<error message="the limit was never/s,
    );
  });

  test("waits no longer for a fault's command that does not end", async () => {
    const { failure } = await runFault("exec sleep 60", now(), now() + 200, now);
    expect(failure).toBe("it did not end within 60 s of the last call");
  });

  test("says all that is wrong with a plan", async () => {
    const plan = join(temporaryFolder("plan"), "plan.yaml");
    writeFileSync(
      plan,
      `servers: [headgate]
domain: d
for: 4s
refunds: often
cert: client.pem
limits:
  - { entries: k=v, limit: 20/s, burst: 40 }
  - { entries: k=v, limit: 20/s, burst: 40 }
  - { entries: k=v, limit: 9/s }
  - { entries: a=*, limit: 20/s, burst: 40, algorithm: fixed_window }
faults: [{ at: 5s, run: "true" }]
`,
    );
    const { err, exitCode } = await runProgram(`verify ${plan}`);
    expect(err.trim().split("\n").toSorted()).toEqual([
      "faults[0].at: expected a time before the end of the run",
      "limits: expected the same limits wherever k=v stands (several limits of a call are a list)",
      "limits[3].burst: expected none, as fixed_window has no burst",
      "plan: expected cert and key together",
      'refunds: expected true or false, got "often"',
      'servers: expected host:port, got "headgate"',
    ]);
    expect(exitCode).toBe(2);
  });

  test("runs a plan with faults, and says what each cost", async () => {
    const rules = "domain: d\ndescriptors: [{ key: k, rate_limit: { tokens_per_second: 20, burst: 40 } }]\n";
    const { grpcPort, pid } = await startService({}, { rules });
    const plan = join(temporaryFolder("plan"), "plan.yaml");
    writeFileSync(
      plan,
      `servers: ["127.0.0.1:${grpcPort}"]
domain: d
for: 4s
limits: [{ entries: k=*, limit: 20/s, burst: 40 }]
faults: [{ at: 1s, run: kill -STOP ${pid}; sleep 2.5; kill -CONT ${pid} }]
`,
    );
    const { out, exitCode } = await runProgram(`verify ${plan} --seed 3`);
    expect(out).toMatch(
      /at [\d.]+ s kill -STOP \d+; .*\n {2}\d+ calls? lost, 0 hits granted beyond limits, 0 wrong refusals, exact again after \d\./,
    );
    expect(exitCode).toBe(0);
  });

  test.each([
    [
      "verify",
      "expected a descriptor or a plan, or --http\n\nA * in a value stands for four new callers, whose limits are full.\n\nExamples:\n",
    ],
    [
      "verify a=b --limit five --server a:1 --domain d",
      'limits[0].limit: expected a rate such as 50/s, 1000/h or 20/30s, got "five"',
    ],
    ["verify plan.yaml --limit 5/s --seed 1", "a plan takes --seed and --junit only, got --limit"],
    [
      "verify a=b --limit 5/s --server a:1 --domain d --cert c.pem --key k.pem",
      "cert: expected servers with TLS, https://host:port",
    ],
    [
      "verify a=b --limit 5/s --server https://a:1 --domain d --cert no-such.pem --key no-such.pem",
      "ENOENT: no such file or directory, open 'no-such.pem'",
    ],
    ["verify no-such-plan.yaml", "ENOENT: no such file or directory, open 'no-such-plan.yaml'"],
    ["verify a=b --limit 5/s --server 127.0.0.1:1 --domain d", "can't connect to 127.0.0.1:1 within 3 s"],
  ])("ends with 2: %s", async (words, says) => {
    const { err, exitCode } = await runProgram(words);
    expect(err).toContain(says);
    expect(exitCode).toBe(2);
  });
});
