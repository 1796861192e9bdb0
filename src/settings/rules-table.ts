// Settings of where the rule files are and how they are read.

import { optional, setting, under } from "./setting.ts";
import { BOOLEAN, durationMs, PATH } from "./value-types.ts";

const DAY_MS = 86_400_000;

export const RULE_SETTINGS = under("Rules", {
  rulesDir: optional(
    "RULES_DIR",
    PATH,
    "Directory of the rule files (`*.yaml`, `*.yml`, `*.json`), searched with its subdirectories. In the RUNTIME_* directory every file counts.",
    {
      defaultShown:
        "the RUNTIME_* directory if RUNTIME_ROOT or RUNTIME_SUBDIRECTORY is set, else the `deploy/rules` that comes with Headgate",
    },
  ),
  rulesPollIntervalMs: setting(
    "RULES_POLL_INTERVAL",
    durationMs(100, DAY_MS),
    2_000,
    "How often the content of the rule files is compared, beside watching for changes.",
  ),
  runtimeRoot: setting(
    "RUNTIME_ROOT",
    PATH,
    "/srv/runtime_data/current",
    "First part of the rules directory where RULES_DIR is not set.",
  ),
  runtimeSubdirectory: setting("RUNTIME_SUBDIRECTORY", PATH, "", "Second part of the rules directory."),
  runtimeAppDirectory: setting("RUNTIME_APPDIRECTORY", PATH, "config", "Third part of the rules directory."),
  ignoresDotFiles: optional(
    "RUNTIME_IGNOREDOTFILES",
    BOOLEAN,
    "Leaves out files and directories whose name begins with a dot; those whose name begins with two are left out in any case (a mounted ConfigMap holds each file a second time under `..data`).",
    { defaultShown: "`true`, under COMPATIBILITY_MODE `false`" },
  ),
  runtimeWatchRoot: setting(
    "RUNTIME_WATCH_ROOT",
    BOOLEAN,
    true,
    "Accepted and without effect: a swapped link is noticed as well as an edited file.",
  ),
  mergesDomains: setting(
    "MERGE_DOMAIN_CONFIG",
    BOOLEAN,
    false,
    "Joins files that name the same domain; otherwise that is an error.",
  ),
  startsWithoutRules: setting(
    "FORCE_START_WITHOUT_INITIAL_CONFIG",
    BOOLEAN,
    false,
    "With a control plane: is healthy before it has sent rules, as Envoy Gateway's probes need; calls fail until then. With files it is without effect: the process always starts, and is not ready until they can be used.",
  ),
  readyNeedsDomain: setting(
    "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
    BOOLEAN,
    false,
    "Is ready only with at least one domain loaded; otherwise rules without any domain will do.",
  ),
});
