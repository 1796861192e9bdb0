// What one row of the settings' table says, and short ways to write rows.

import type { SettingType } from "./value-types.ts";

/** Headings of the docs' table, in its order. */
export const SETTING_GROUPS = ["Rules", "Listening", "Store", "Answers", "Telemetry", "Traces"] as const;
type SettingGroup = (typeof SETTING_GROUPS)[number];

/** One setting. `Default` is undefined where there is no default value. */
export interface Setting<T, Default extends T | undefined = T> {
  /** Name of the environment variable. */
  readonly name: string;
  readonly group: SettingGroup;
  readonly type: SettingType<T>;
  readonly default: Default;
  /** What the docs show for a default that depends on other settings. */
  readonly defaultShown: string | undefined;
  readonly help: string;
  /** Never printed. */
  readonly secret: boolean;
  /** The path of a file that must be readable at start. */
  readonly isFile: boolean;
}

interface SettingExtras {
  readonly defaultShown?: string;
  readonly secret?: boolean;
  readonly isFile?: boolean;
}

type Row<T, Default extends T | undefined> = Omit<Setting<T, Default>, "group">;

/** A setting that always has a value. */
export function setting<T>(name: string, type: SettingType<T>, value: NoInfer<T>, help: string): Row<T, T> {
  return { name, type, default: value, defaultShown: undefined, help, secret: false, isFile: false };
}

/** A setting that may be left out. */
export function optional<T>(
  name: string,
  type: SettingType<T>,
  help: string,
  extras: SettingExtras = {},
): Row<T, undefined> {
  const { defaultShown, secret = false, isFile = false } = extras;
  return { name, type, default: undefined, defaultShown, help, secret, isFile };
}

/** Puts rows under a heading. */
export function under<Rows extends Record<string, object>>(
  group: SettingGroup,
  rows: Rows,
): { readonly [Field in keyof Rows]: Rows[Field] & { readonly group: SettingGroup } } {
  const grouped = Object.entries(rows).map(([field, row]) => [field, { ...row, group }]);
  return Object.fromEntries(grouped) as never;
}
