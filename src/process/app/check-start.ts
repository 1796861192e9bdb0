// Implements `headgate serve --check`: runs a start up to the point where it listens, and names everything that is
// wrong. Does not ask the control plane, and writes nothing; the store's connection tests itself as at every start.

import { SystemClock } from "../../base/clock.ts";
import { ConfigError } from "../../base/errors.ts";
import { HealthState } from "../../base/health.ts";
import type { Log } from "../../base/log.ts";
import { isoTime } from "../../base/units.ts";
import { Tokens } from "../../operate/http/tokens.ts";
import { compileOptions, type Environment, readWithMistakes, type Settings } from "../../settings/settings.ts";
import { SETTING_GROUPS } from "../../settings/table.ts";
import { SILENT_STORE_OBSERVER } from "../../stores/store-observer.ts";
import { openRules } from "./open-rules.ts";
import { openStore } from "./open-store.ts";
import { waitForStore } from "./store-watch.ts";
import { openTls } from "./tls-watch.ts";

/** `says` may have several lines. */
interface StartFinding {
  readonly level: "ok" | "warning" | "error";
  readonly says: string;
}

interface Start {
  readonly settings: Settings;
  readonly clock: SystemClock;
  readonly version: string;
  /** Its warnings and errors become findings. */
  readonly logger: Log;
}

/**
 * Checks by the group of settings that they need. Each resolves to what is right, or to undefined if it logged what is
 * wrong.
 */
const CHECKS: readonly (readonly [keyof typeof SETTING_GROUPS, (start: Start) => Promise<string | undefined>])[] = [
  ["Rules", checkRules],
  ["Listening", checkPorts],
  ["Store", checkStore],
];

/** Everything found, in the order of a start. What depends on settings that can't be used is not checked. */
export async function checkStart(env: Environment, version: string): Promise<readonly StartFinding[]> {
  const found: StartFinding[] = [];
  const add = (level: StartFinding["level"], says: string) => found.push({ level, says });
  const { settings, mistakes } = readWithMistakes(env);
  for (const mistake of mistakes) add("error", mistake);
  for (const warning of settings.warnings) add("warning", warning);
  if (mistakes.length === 0) add("ok", "settings");
  const tell =
    (level: StartFinding["level"]) =>
    (
      { reason, why = reason, problems = [] }: { reason?: string; why?: string; problems?: readonly string[] },
      said: string,
    ) =>
      add(level, [why === undefined ? said : `${said}: ${why}`, ...problems].join("\n"));
  const logger = { info: () => undefined, warn: tell("warning"), error: tell("error") };
  const wrong = new Set(mistakes.flatMap((line) => line.slice(0, line.indexOf(":")).split(", ")));
  for (const [group, check] of CHECKS) {
    if (Object.values(SETTING_GROUPS[group]).some(({ name }) => wrong.has(name))) continue;
    try {
      const right = await check({ settings, clock: new SystemClock(), version, logger });
      if (right !== undefined) add("ok", right);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      add("error", error.message);
    }
  }
  return found;
}

async function checkRules(start: Start): Promise<string | undefined> {
  const { rulesDir, xdsUrl, rulesCache } = start.settings;
  const { reloader, xds } = await openRules(start, compileOptions(start.settings), () => undefined);
  await (xds === undefined ? reloader.reload() : xds.load());
  const { current } = reloader;
  const from = xds === undefined ? rulesDir : `${rulesCache}, as ${xdsUrl} sent them`;
  const count = current?.domains.size;
  if (count !== undefined) return `rules: ${count} domain${count === 1 ? "" : "s"} from ${from}`;
  return reloader.status().lastError === undefined ? `rules: ${xdsUrl} sends them, and none are kept` : undefined;
}

async function checkPorts({ settings, clock, logger }: Start): Promise<string | undefined> {
  new Tokens(settings, clock, logger);
  const files = openTls({ settings, logger, health: new HealthState() });
  files?.close();
  if (files === undefined) return "certificates: none, gRPC is served without TLS";
  const { subject, validToUs, fault } = files.status();
  return fault === undefined ? `certificates: ${subject}, valid to ${isoTime(validToUs)}` : undefined;
}

async function checkStore({ settings, clock, logger }: Start): Promise<string | undefined> {
  const { store, storeHealth: health } = await openStore({ settings, clock, observer: SILENT_STORE_OBSERVER });
  await waitForStore(() => health.trouble() === undefined);
  const reason = health.trouble();
  await store.close();
  if (reason === undefined) return `store: ${settings.backendType}`;
  logger.error({ reason }, "store");
  return undefined;
}
