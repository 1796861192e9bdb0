// Loads OpenTelemetry's packages, which are needed only for traces (docs/decisions/0024-traces.md).

import { ConfigError } from "../../../base/errors.ts";
import { errorCode } from "../../../base/thrown.ts";
import type { TraceProtocol } from "../../../settings/trace-settings.ts";

type Exporters = Readonly<Record<TraceProtocol, string>>;
const EXPORTERS: Exporters = {
  "http/protobuf": "@opentelemetry/exporter-trace-otlp-proto",
  grpc: "@opentelemetry/exporter-trace-otlp-grpc",
};
/**
 * The versions of `peerDependencies` in package.json; test/unit/operate/telemetry/traces/load-packages.test.ts keeps
 * both equal.
 */
export const VERSIONS: Readonly<Record<string, string>> = {
  "@opentelemetry/api": "1.9",
  "@opentelemetry/resources": "2.12",
  "@opentelemetry/sdk-trace-base": "2.12",
  [EXPORTERS["http/protobuf"]]: "0.223",
  [EXPORTERS.grpc]: "0.223",
};

/** Rejects with ConfigError, which shows the command that installs the packages, if one is missing. */
export async function orSayWhatIsMissing<T>(protocol: TraceProtocol, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if (errorCode(error) !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new ConfigError(
      "CONFIG_SETTINGS",
      `traces are on (TRACING_ENABLED, OTEL_TRACES_EXPORTER), but OpenTelemetry packages are missing; install them alongside Headgate:\n  ${installCommand(protocol)}`,
    );
  }
}

/** The command to run where Headgate is installed. */
function installCommand(protocol: TraceProtocol): string {
  const ofOthers = Object.values(EXPORTERS).filter((name) => name !== EXPORTERS[protocol]);
  const names = Object.entries(VERSIONS).filter(([name]) => !ofOthers.includes(name));
  return `npm install ${names.map(([name, version]) => `${name}@${version}`).join(" ")}`;
}
