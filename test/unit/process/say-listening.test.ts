// The log line of a start.

import { expect, test } from "vitest";
import type { Logger } from "../../../src/operate/telemetry/logger.ts";
import { sayListening } from "../../../src/process/say-listening.ts";
import { readSettings } from "../../../src/settings/settings.ts";

test.each([
  { env: { LOG_FORMAT: "text" }, page: "http://localhost:8080" },
  { env: { LOG_FORMAT: "text", HOST: "10.0.0.7" }, page: "http://10.0.0.7:8080" },
  { env: { LOG_FORMAT: "json" }, page: undefined },
])("names the page for people, who may click on it: $env", ({ env, page }) => {
  const lines: object[] = [];
  const logger = { info: (fields: object) => lines.push(fields) } as unknown as Logger;
  sayListening(readSettings(env), { grpc: 8081, http: 8080 }, logger);
  expect(lines).toEqual([expect.objectContaining({ http: expect.stringContaining(":8080") })]);
  expect((lines[0] as { page?: string }).page).toBe(page);
});
