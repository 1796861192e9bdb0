// Lines of the log in both formats, without secrets.

import { expect, test } from "vitest";
import { createLogger } from "../../../../src/operate/telemetry/logger.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

type LoggerOptions = Parameters<typeof createLogger>[0];

function makeLogger(options: Partial<LoggerOptions> = {}) {
  const lines: string[] = [];
  const logger = createLogger({
    level: "info",
    format: "json",
    clock: new ManualClock(),
    secrets: [],
    write: (line) => lines.push(line),
    ...options,
  });
  return { lines, logger };
}

test("writes one JSON object per line, with time and the name of the level", () => {
  const { lines, logger } = makeLogger();
  logger.info({ port: 8081 }, "listening");
  expect(lines).toHaveLength(1);
  expect(lines[0]?.endsWith("\n")).toBe(true);
  expect(JSON.parse(lines[0] ?? "")).toEqual({
    level: "info",
    time: "2026-01-01T00:00:00.000Z",
    port: 8081,
    msg: "listening",
  });
});

test("writes lines for people in the text format", () => {
  const { lines, logger } = makeLogger({ format: "text" });
  logger.warn({ port: 8081, path: "/a b", where: "x:1" }, "listening");
  expect(lines).toEqual(['2026-01-01T00:00:00.000Z WARN  listening port=8081 path="/a b" where=x:1\n']);
});

test("puts the stack of an error below its line", () => {
  const { lines, logger } = makeLogger({ format: "text" });
  logger.error({ err: new Error("no room") }, "failed");
  expect(lines[0]).toMatch(/^2026-01-01T00:00:00.000Z ERROR failed error="no room"\n {4}at /);
});

test.each([{ format: "json" }, { format: "text" }] as const)(
  "takes secrets out of every line ($format)",
  ({ format }) => {
    const { lines, logger } = makeLogger({ format, secrets: ['p"ss/word'] });
    logger.info(
      { password: "abc", nested: { auth: "abc" }, url: `redis://:${encodeURIComponent('p"ss/word')}@a` },
      'p"ss/word',
    );
    logger.error({ err: new Error('WRONGPASS p"ss/word') }, "failed");
    expect(lines.join("")).not.toMatch(/ss(?:\/|%2F)word|abc/);
    expect(lines[0]).toContain("[redacted]");
  },
);
