// The type of a row in the tables of settings, and short functions that make rows.

import type { SettingType } from "./value-types.ts";

/** One setting. `Default` is the type undefined if there is no default value. */
export interface Setting<T, Default extends T | undefined = T> {
  /** Name of the environment variable. */
  readonly name: string;
  readonly type: SettingType<T>;
  readonly default: Default;
  /** Shown by the docs for a default that depends on other settings. */
  readonly defaultShown: string | undefined;
  readonly help: string;
}

/** A setting with a default value. */
export function setting<T>(name: string, type: SettingType<T>, value: NoInfer<T>) {
  const means = (help: string): Setting<T> => ({ name, type, default: value, defaultShown: undefined, help });
  return { means };
}

/** A setting without a default value. */
export function optional<T>(name: string, type: SettingType<T>) {
  const means = (help: string, defaultShown?: string): Setting<T, undefined> => {
    return { name, type, default: undefined, defaultShown, help };
  };
  return { means };
}
