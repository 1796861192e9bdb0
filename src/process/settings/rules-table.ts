// Settings of the rule files: where they are and how they are read.

import { optional, setting, under } from "./setting.ts";
import { BOOLEAN, durationMs, PATH } from "./value-types.ts";

const DAY_MS = 86_400_000;

export const RULE_SETTINGS = under("Rules", {
  rulesDir: optional(
    "RULES_DIR",
    PATH,
    "Directory of the rule files (`*.yaml`, `*.yml`, `*.json`) and its subdirectories. In the RUNTIME_* directory every file is a rule file.",
    {
      defaultShown:
        "the RUNTIME_* directory if RUNTIME_ROOT or RUNTIME_SUBDIRECTORY is set, else the `deploy/rules` that comes with Headgate",
    },
  ),
  rulesPollIntervalMs: setting(
    "RULES_POLL_INTERVAL",
    durationMs(100, DAY_MS),
    2_000,
    "How often the content of the rule files is compared. Changes that the system reports take effect without this wait.",
  ),
  runtimeRoot: setting(
    "RUNTIME_ROOT",
    PATH,
    "/srv/runtime_data/current",
    "First part of the rules directory if RULES_DIR is not set.",
  ),
  runtimeSubdirectory: setting("RUNTIME_SUBDIRECTORY", PATH, "", "Second part of the rules directory."),
  runtimeAppDirectory: setting("RUNTIME_APPDIRECTORY", PATH, "config", "Third part of the rules directory."),
  ignoresDotFiles: optional(
    "RUNTIME_IGNOREDOTFILES",
    BOOLEAN,
    "Ignores files and directories whose name begins with a dot. Names that begin with two dots are always ignored: a mounted ConfigMap has each file a second time under `..data`.",
    { defaultShown: "`true`, under COMPATIBILITY_MODE `false`" },
  ),
  runtimeWatchRoot: setting(
    "RUNTIME_WATCH_ROOT",
    BOOLEAN,
    true,
    "Accepted, without effect: swapped links and edited files are both noticed.",
  ),
  mergesDomains: setting(
    "MERGE_DOMAIN_CONFIG",
    BOOLEAN,
    false,
    "Joins files that name the same domain. Otherwise two such files are an error.",
  ),
  startsWithoutRules: setting(
    "FORCE_START_WITHOUT_INITIAL_CONFIG",
    BOOLEAN,
    false,
    "With a control plane: the process is healthy before the control plane has sent rules, as the probes of Envoy Gateway need; calls fail until then. With files: without effect; the process always starts, and is ready once the files can be used.",
  ),
  readyNeedsDomain: setting(
    "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
    BOOLEAN,
    false,
    "The process is ready only if at least one domain is loaded. Otherwise rules without any domain are enough.",
  ),
});
