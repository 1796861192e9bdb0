// Chooses the source of rules: files, or a control plane with optional files.

import type { Log } from "../../base/log.ts";
import type { CompileOptions } from "../../engine/rules/compile.ts";
import { Reloader } from "../../rule-sources/files/reload.ts";
import type { ControlPlane } from "../../rule-sources/xds/ads-stream.ts";
import type { Settings } from "../../settings/settings.ts";
import type { AppOptions } from "./app-options.ts";

/** Most resources of a set; a larger set is rejected. */
const XDS_RESOURCES_MAX = 65_536;

type RulesOptions = Pick<AppOptions, "settings" | "clock" | "version"> & { readonly logger: Log };
type Compile = Omit<CompileOptions, "version" | "hash">;

/**
 * Makes the source, whose `start` reads; `xds` is the same object if it is a control plane. `changed` is called when
 * the control plane connects, disconnects or sends rules.
 */
export async function openRules(
  { settings, clock, logger, version }: RulesOptions,
  compile: Compile,
  changed: () => void,
) {
  const choice = { everyFile: settings.readsEveryFile, dotFiles: !settings.ignoresDotFiles };
  const { rulesDir: directory } = settings;
  if (settings.configType === "file") {
    const load = { ...compile, ...choice };
    return { reloader: new Reloader({ directory, load, clock, log: logger }), xds: undefined };
  }
  const { XdsRules } = await import("../../rule-sources/xds/xds-rules.ts");
  const xds = new XdsRules({
    plane: planeOf(settings, version),
    pauses: {
      initialMs: settings.xdsRetryMs,
      maxMs: settings.xdsMaxPauseMs,
      jitters: settings.xdsJitters,
    },
    compile,
    files: settings.readsFiles ? { directory, choice } : undefined,
    cacheFile: settings.rulesCache,
    clock,
    log: logger,
    changed,
  });
  return { reloader: xds, xds };
}

function planeOf(settings: Settings, programVersion: string): ControlPlane {
  const { xdsCaFile: caFile, xdsCertFile: certFile, xdsKeyFile: keyFile, xdsServerName: serverName } = settings;
  return {
    url: settings.xdsUrl,
    nodeId: settings.xdsNodeId,
    nodeMetadata: settings.xdsNodeMetadata,
    headers: settings.xdsHeaders ?? new Map(),
    bounds: { messageBytesMax: settings.xdsMessageBytesMax, resourcesMax: XDS_RESOURCES_MAX },
    tls: settings.xdsUsesTls ? { caFile, certFile, keyFile, serverName } : undefined,
    programVersion,
  };
}
