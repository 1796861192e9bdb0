// The type of a row in the tables of settings, and short functions that make rows.

import type { SettingType } from "./value-types.ts";

/** The groups of settings, in the order of docs/settings.md. */
export const SETTING_GROUPS = ["Rules", "Listening", "Store", "Answers", "Telemetry", "Traces"] as const;
type SettingGroup = (typeof SETTING_GROUPS)[number];

/** One setting. `Default` is the type undefined if there is no default value. */
export interface Setting<T, Default extends T | undefined = T> {
  /** Name of the environment variable. */
  readonly name: string;
  readonly group: SettingGroup;
  readonly type: SettingType<T>;
  readonly default: Default;
  /** Shown by the docs for a default that depends on other settings. */
  readonly defaultShown: string | undefined;
  readonly help: string;
}

type Row<T, Default extends T | undefined> = Omit<Setting<T, Default>, "group">;

/** A setting with a default value. */
export function setting<T>(name: string, type: SettingType<T>, value: NoInfer<T>, help: string): Row<T, T> {
  return { name, type, default: value, defaultShown: undefined, help };
}

/** A setting without a default value. */
export function optional<T>(
  name: string,
  type: SettingType<T>,
  help: string,
  defaultShown?: string,
): Row<T, undefined> {
  return { name, type, default: undefined, defaultShown, help };
}

/** Adds the group to rows. */
export function under<Rows extends Record<string, object>>(
  group: SettingGroup,
  rows: Rows,
): { readonly [Field in keyof Rows]: Rows[Field] & { readonly group: SettingGroup } } {
  const grouped = Object.entries(rows).map(([field, row]) => [field, { ...row, group }]);
  return Object.fromEntries(grouped) as never;
}
