// All settings that Headgate reads, with name, type, default and help. settings.ts reads them, docs/settings.md lists
// them.

import { ANSWER_SETTINGS } from "./answers-table.ts";
import { LISTENING_SETTINGS } from "./listening-table.ts";
import { RULE_SETTINGS } from "./rules-table.ts";
import type { Setting } from "./setting.ts";
import { STORE_SETTINGS } from "./store-table.ts";
import { TELEMETRY_SETTINGS, TRACES_SETTINGS } from "./telemetry-table.ts";

/** The settings by their groups, in the order of the docs. */
export const SETTING_GROUPS = {
  Rules: RULE_SETTINGS,
  Listening: LISTENING_SETTINGS,
  Store: STORE_SETTINGS,
  Answers: ANSWER_SETTINGS,
  Telemetry: TELEMETRY_SETTINGS,
  Traces: TRACES_SETTINGS,
} as const;

/** All settings by the field of Settings. */
export const SETTINGS = {
  ...RULE_SETTINGS,
  ...LISTENING_SETTINGS,
  ...STORE_SETTINGS,
  ...ANSWER_SETTINGS,
  ...TELEMETRY_SETTINGS,
  ...TRACES_SETTINGS,
} as const;

/** Values of the settings by field, before settings.ts resolves those that depend on each other. */
export type TableValues = {
  readonly [Field in keyof typeof SETTINGS]: (typeof SETTINGS)[Field] extends Setting<infer T, infer D> ? T | D : never;
};
