// The ports that a process can do without: the debug port and a second address for metrics. One that can't be opened is
// logged; calls are answered all the same.

import { openDebugServer } from "../admin/debug-server.ts";
import type { PageAddress, PageServer } from "../admin/page-server.ts";
import { type AdminSources, openMetricsServer } from "../admin/server.ts";
import { errorMessage } from "../core/thrown.ts";
import type { AppParts } from "./app-parts.ts";

/** What listens beside gRPC and HTTP; ports are undefined where nothing does. */
export interface SidePorts {
  readonly debugPort: number | undefined;
  readonly metricsPort: number | undefined;
  /** Lets answers under way finish for at most `graceMs`. */
  close(graceMs: number): Promise<void>;
}

/** Opens those that the settings name. Never rejects for a port that is taken. */
export async function openSidePorts(parts: AppParts, sources: AdminSources): Promise<SidePorts> {
  const { settings, reloader, link } = parts;
  const { debugHost, debugPort, prometheusAddress, prometheusPath } = settings;
  const servers: PageServer[] = [];
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
      servers.push(server);
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
  const debugSources = { rules: () => reloader.current, stats: processStats, onError: sources.onError };
  const ports = {
    debugPort: await open("debug", "DEBUG_PORT", debugAddress, (at) => openDebugServer(at, debugSources)),
    metricsPort: await open("metrics", "PROMETHEUS_ADDR", prometheusAddress, (at) =>
      openMetricsServer(at, prometheusPath, sources),
    ),
  };
  return {
    ...ports,
    async close(graceMs) {
      await Promise.all(servers.map((server) => server.close(graceMs)));
    },
  };
}

// The names that Go's runtime has, with what comes nearest to them here. Arguments may hold secrets: only the program.
function processStats(): object {
  const { heapUsed, heapTotal, rss, external } = process.memoryUsage();
  return {
    cmdline: process.argv.slice(0, 2),
    memstats: { Alloc: heapUsed, HeapAlloc: heapUsed, HeapSys: heapTotal, OtherSys: external, Sys: rss },
  };
}
