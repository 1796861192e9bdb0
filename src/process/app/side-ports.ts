// The optional ports: the debug port and a second address for metrics. If one can't be opened, that is logged and the process
// serves calls without it.

import { errorMessage } from "../../engine/base/thrown.ts";
import { openDebugServer } from "../../operate/http/debug-server.ts";
import type { PageAddress, PageServer } from "../../operate/http/page-server.ts";
import { type AdminSources, openMetricsServer } from "../../operate/http/server.ts";
import type { AppParts } from "./app-parts.ts";

/** The optional ports; undefined where nothing listens. */
export interface SidePorts {
  readonly debugPort: number | undefined;
  readonly metricsPort: number | undefined;
}

/** Opens the ports that the settings name. Never rejects because a port is taken. */
export async function openSidePorts(parts: AppParts, sources: AdminSources): Promise<SidePorts> {
  const { settings, reloader, link } = parts;
  const { debugHost, debugPort, httpHosts: hosts, prometheusAddress, prometheusPath } = settings;
  const open = async (
    name: "debug" | "metrics",
    variable: string,
    address: PageAddress | undefined,
    serverAt: (address: PageAddress) => PageServer,
  ): Promise<number | undefined> => {
    const sockets = link?.socketSource(name);
    if (address === undefined || (link !== undefined && sockets === undefined)) return undefined;
    const server = serverAt({ ...address, sockets });
    try {
      const port = await server.listen();
      parts.running.pages.push(server);
      return port;
    } catch (cause) {
      parts.logger.error(
        { variable, where: `${address.host}:${address.port}`, reason: errorMessage(cause) },
        "a port that calls don't need can't be opened; going on without it",
      );
      return undefined;
    }
  };
  const debugAddress = debugPort === undefined ? undefined : { host: debugHost, port: debugPort };
  const debugSources = { rules: () => reloader.current, hosts, onError: sources.onError };
  return {
    debugPort: await open("debug", "DEBUG_PORT", debugAddress, (at) => openDebugServer(at, debugSources)),
    metricsPort: await open("metrics", "PROMETHEUS_ADDR", prometheusAddress, (at) =>
      openMetricsServer(at, prometheusPath, sources),
    ),
  };
}
