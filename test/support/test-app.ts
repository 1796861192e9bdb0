// The whole service in this process, on free ports, with rules from text, and a gRPC client.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { credentials, loadPackageDefinition, Metadata, type ServiceError } from "@grpc/grpc-js";
import { type Clock, SystemClock } from "../../src/base/clock.ts";
import { createLogger } from "../../src/operate/telemetry/logger.ts";
import { startApp } from "../../src/process/app.ts";
import { readSettings } from "../../src/settings/settings.ts";
import { endWithTest } from "./ends.ts";
import { loadProto } from "./load-proto.ts";
import { temporaryFolder } from "./temporary-folder.ts";

type App = Awaited<ReturnType<typeof startApp>>;

/** A request in proto field names. */
export interface AskedRequest {
  readonly domain?: string;
  readonly descriptors?: readonly {
    readonly entries?: readonly { readonly key: string; readonly value?: string }[];
    readonly limit?: { readonly requests_per_unit: number; readonly unit: string | number };
    readonly hits_addend?: { readonly value: number | string };
    readonly is_negative_hits?: boolean;
  }[];
  readonly hits_addend?: number;
}

/** An answer in proto field names, as far as tests look at it. */
export interface Reply {
  readonly overall_code: string;
  readonly statuses: readonly {
    readonly code: string;
    readonly current_limit: { readonly requests_per_unit: number; readonly unit: string; readonly name: string } | null;
    readonly limit_remaining: number;
    readonly duration_until_reset: { readonly seconds: string; readonly nanos: number } | null;
  }[];
  readonly response_headers_to_add: readonly { readonly key: string; readonly value: string }[];
  readonly dynamic_metadata: unknown;
}

interface RateLimitClient {
  shouldRateLimit(
    request: AskedRequest,
    metadata: Metadata,
    options: { deadline: Date },
    callback: (error: ServiceError | null, reply?: Reply) => void,
  ): void;
  close(): void;
}

export interface TestApp {
  readonly app: App;
  readonly grpcPort: number;
  readonly httpPort: number;
  readonly rulesDir: string;
  readonly log: readonly string[];
  ask(request: AskedRequest, deadlineMs?: number): Promise<Reply>;
  /** Asks about one descriptor of domain `edge`. */
  hit(entries: Readonly<Record<string, string>>, deadlineMs?: number): Promise<Reply>;
  http(path: string, init?: RequestInit): Promise<Response>;
  writeRules(files: Readonly<Record<string, string>>): Promise<void>;
  stop(): Promise<void>;
}

const DEADLINE_MS = 5_000;

/** Starts the service; `env` overrides its settings. The log is silent but kept. */
export async function startTestApp(
  rules: string | Readonly<Record<string, string>>,
  env: Readonly<Record<string, string>> = {},
  clock: Clock = new SystemClock(),
): Promise<TestApp> {
  const rulesDir = temporaryFolder("headgate-rules");
  const writeRules = async (files: Readonly<Record<string, string>>) => {
    for (const [name, text] of Object.entries(files)) await writeFile(join(rulesDir, name), text);
  };
  await writeRules(typeof rules === "string" ? { "rules.yaml": rules } : rules);
  const { app, log, stop } = await startBareApp({ RULES_DIR: rulesDir, ...env }, clock);
  const client = openClient(`127.0.0.1:${app.grpcPort}`);
  const ask: TestApp["ask"] = (request, deadlineMs) => askOnce(client, request, deadlineMs);
  return {
    app,
    grpcPort: app.grpcPort,
    httpPort: app.httpPort,
    rulesDir,
    log,
    ask,
    hit: (entries, deadlineMs) =>
      ask(
        { domain: "edge", descriptors: [{ entries: Object.entries(entries).map(([key, value]) => ({ key, value })) }] },
        deadlineMs,
      ),
    http: (path, init) => fetch(`http://127.0.0.1:${app.httpPort}${path}`, init),
    writeRules,
    stop,
  };
}

/** The service with these settings, and its log. */
export async function startBareApp(
  env: Readonly<Record<string, string>>,
  clock: Clock = new SystemClock(),
): Promise<Pick<TestApp, "app" | "log" | "stop">> {
  const log: string[] = [];
  const settings = readSettings({
    HOST: "127.0.0.1",
    GRPC_HOST: "127.0.0.1",
    PORT: "0",
    GRPC_PORT: "0",
    DEBUG_HOST: "127.0.0.1",
    ...(env.COMPATIBILITY_MODE === "true" ? { DEBUG_PORT: "0" } : {}),
    // Each service reserves room for them.
    RUNTIME_LIMITS_MAX: "1000",
    SHUTDOWN_DELAY: "0s",
    SHUTDOWN_GRACE: "1s",
    ...env,
  });
  const logger = createLogger({
    level: settings.logLevel,
    format: "json",
    clock,
    secrets: [],
    write: (line) => log.push(line),
  });
  const app = await startApp({ settings, clock, logger, version: "0.0.0-test" });
  return { app, log, stop: endWithTest(() => app.stop()) };
}

/** A gRPC client of the RLS at `address`. */
export function openClient(
  address: string,
  options: object = {},
  security = credentials.createInsecure(),
): RateLimitClient {
  const services = loadPackageDefinition(loadProto()) as unknown as {
    envoy: {
      service: {
        ratelimit: {
          v3: { RateLimitService: new (address: string, credentials: unknown, options: object) => RateLimitClient };
        };
      };
    };
  };
  const client = new services.envoy.service.ratelimit.v3.RateLimitService(address, security, options);
  endWithTest(() => client.close());
  return client;
}

/** One call; rejects with the ServiceError of a call that failed. */
export function askOnce(
  client: RateLimitClient,
  request: AskedRequest,
  deadlineMs = DEADLINE_MS,
  traceparents: readonly string[] = [],
): Promise<Reply> {
  const metadata = new Metadata();
  for (const value of traceparents) metadata.add("traceparent", value);
  return new Promise((resolve, reject) => {
    const options = { deadline: new Date(Date.now() + deadlineMs) };
    client.shouldRateLimit(request, metadata, options, (error, reply) => {
      if (error !== null) reject(error);
      else resolve(reply as Reply);
    });
  });
}
