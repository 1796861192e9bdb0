// Descriptors and addresses as they are typed; how descriptors are read is in test/unit/engine/domain/entry-text.test.ts.

import { afterEach, describe, expect, test, vi } from "vitest";
import { parseAuthority, parseHttpServer } from "../../../../src/tools/cli/arguments.ts";
import { runProgram } from "../../../support/run-program.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

test.each(["localhost:8081", "127.0.0.1:1", "[::1]:8081", "a.b-c_d:65535", "unix:80"])("%s is an address", (text) => {
  expect(parseAuthority(text)).toBe(text);
});

test("a host alone is on the usual port", () => {
  expect(parseAuthority("a.b-c")).toBe("a.b-c:8081");
});

test.each([
  ["", "Expected host:port, got ''."],
  [":8081", "Expected host:port, got ':8081'."],
  ["localhost:0", "Expected host:port, got 'localhost:0'."],
  ["localhost:65536", "Expected host:port, got 'localhost:65536'."],
  ["http://localhost:8081", "Expected host:port without a scheme, got 'http://localhost:8081'."],
  ["::1", "Expected host:port, got '::1'."],
  ["a b:1", "Expected host:port, got 'a b:1'."],
])("%s is no address", (text, says) => {
  expect(() => parseAuthority(text)).toThrow(says);
});

test.each([
  ["localhost:8080", "http://localhost:8080"],
  ["localhost", "http://localhost:8080"],
  ["ops.example/headgate", "http://ops.example:8080/headgate"],
  ["[::1]:8080", "http://[::1]:8080"],
  ["http://localhost:8080/", "http://localhost:8080"],
  ["HTTP://localhost:8080", "HTTP://localhost:8080"],
  ["https://ops.example/headgate/", "https://ops.example/headgate"],
  ["ops.example:80/headgate", "http://ops.example:80/headgate"],
])("%s is the HTTP port %s", (text, url) => {
  expect(parseHttpServer(text)).toBe(url);
});

test.each([
  "",
  " ",
  "localhost:",
  "localhost:0",
  "localhost:65536",
  ":8080",
  "::1",
  "//localhost:8080",
  "ftp://h",
  "ftp://h:1",
  "http://",
  "http:///explain",
  "http://h:0",
  "http://h:65536",
  "http://a b:1",
  "http://user:secret@h:1",
  "http://h:1?a=b",
  "http://h:1#a",
  "unix:///tmp/socket",
  "/run/socket",
])("'%s' is no HTTP port", (text) => {
  expect(() => parseHttpServer(text)).toThrow(`Expected host:port or a URL such as http://host:port, got '${text}'.`);
});

test.each([
  ["ask", "-d", "d", "tenant"],
  ["ask", "-d", "d", ""],
  ["explain", "-d", "d", "tenant"],
  ["buckets", "peek", "-d", "d", "tenant"],
  ["buckets", "reset", "-d", "d", "a=b,,c=d"],
  ["client", "-domain", "d", "-descriptors", "tenant"],
  ["simulate", "--descriptor", "tenant", "f"],
])("%s %s %s %s %s is refused before anything is asked", async (...args) => {
  const run = await runProgram(args.filter((each) => each !== undefined));
  expect(run.exitCode).toBe(2);
  expect(run.err).toMatch(/[Ee]xpected key=value,key2=value2, got '(?:tenant||a=b,,c=d)'/);
});

test.each([
  ["explain", "-d", "d", "-r", "deploy/rules", "tenant=acme plan=gold"],
  ["buckets", "peek", "-d", "d", "-s", "127.0.0.1:1", "tenant=acme plan=gold"],
  ["ask", "-d", "d", "-s", "127.0.0.1:1", "tenant=acme plan=gold"],
  ["client", "-dial_string", "127.0.0.1:1", "-domain", "d", "-descriptors", "tenant=acme plan=gold"],
])("%s %s %s %s %s warns of a blank where a comma was meant", async (...args) => {
  const { err } = await runProgram(args);
  expect(err).toContain(
    "warning: the value 'acme plan=gold' of 'tenant' looks like two entries; commas separate entries: tenant=acme,plan=gold\n",
  );
});

test.each([
  ["ask", "a=b"],
  ["explain", "-r", "deploy/rules", "a=b"],
  ["buckets", "peek", "a=b"],
  ["buckets", "reset", "a=b"],
  ["client", "-descriptors", "a=b"],
])("%s wants a domain", async (...args) => {
  const { err, exitCode } = await runProgram([...args, args[0] === "client" ? "-domain" : "-d", ""]);
  expect([err.includes("Expected a domain."), exitCode]).toEqual([true, 2]);
});

test("ask, client and the options of logs want text", async () => {
  for (const args of [
    ["ask", "-d", "d", "a=\\xff"],
    ["client", "-domain", "d", "-descriptors", "a=\\xff"],
    ["simulate", "--descriptor", "a=\\xff", "f"],
  ]) {
    const run = await runProgram(args);
    expect(run.err).toContain("xpected UTF-8 as the value of 'a', got 'a=\\xff'");
    expect(run.exitCode).toBe(2);
  }
});

describe("HEADGATE_SERVER", () => {
  const asks = [
    ["ask", "-d", "d", "a=b"],
    ["top", "--once"],
    ["explain", "-d", "d", "a=b"],
    ["buckets", "peek", "-d", "d", "a=b"],
    ["limits", "list"],
    ["doctor"],
    ["verify", "-d", "d", "--limit", "1/s", "--for", "1s", "a=b"],
  ];

  // `verify` would try for as long as it is told to.
  test.each(asks.slice(0, -1).map((args) => ({ args })))("is the default of --server of $args", async ({ args }) => {
    vi.stubEnv("HEADGATE_SERVER", "127.0.0.1:1");
    const { out, err, exitCode } = await runProgram(args);
    expect([out + err, exitCode]).toEqual([expect.stringContaining("127.0.0.1:1"), 2]);
    const help = await runProgram([...args, "--help"]);
    expect(help.out.replace(/\s+/g, " ")).toContain("env: HEADGATE_SERVER");
  });

  test.each(asks.map((args) => ({ args })))("is named by $args if it is wrong", async ({ args }) => {
    vi.stubEnv("HEADGATE_SERVER", "127.0.0.1:0");
    const { err, exitCode } = await runProgram(args);
    expect([err, exitCode]).toEqual([expect.stringContaining("HEADGATE_SERVER"), 2]);
  });

  test.each(["127.0.0.1:2", " "])("gives way to '%s'", async (value) => {
    vi.stubEnv("HEADGATE_SERVER", value.trim() === "" ? value : "127.0.0.1:0");
    const typed = value.trim() === "" ? [] : ["-s", value];
    expect((await runProgram(["limits", "list", ...typed])).err).not.toContain("HEADGATE_SERVER");
  });

  test("gives way to --rules, --http and plans", async () => {
    vi.stubEnv("HEADGATE_SERVER", "127.0.0.1:1");
    const explained = await runProgram(["explain", "-d", "edge", "-r", "deploy/rules", "remote_address=1.2.3.4"]);
    expect([explained.exitCode, explained.err]).toEqual([0, ""]);
    const page = ["verify", "--http", "http://127.0.0.1:2/", "--limit", "1/s", "--for", "1s"];
    expect((await runProgram(page)).err).not.toContain("servers");
    expect((await runProgram(["verify", "nowhere.yaml"])).err).toContain("nowhere.yaml");
  });
});
