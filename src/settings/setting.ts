// The type of a row in the tables of settings, and short functions that make rows.

import type { SettingType } from "./value-types.ts";

/** One setting. `Default` is the type undefined if there is no default value. */
export interface Setting<T, Default extends T | undefined = T> {
  /** Name of the environment variable. */
  readonly name: string;
  /** Another variable of the same meaning, which counts if the first is not set. */
  readonly otherName: string | undefined;
  readonly type: SettingType<T>;
  readonly default: Default;
  /** Shown by the docs for a default that depends on other settings. */
  readonly defaultShown: string | undefined;
  readonly help: string;
}

/** A name, or two of which the first counts if both are set. */
type Names = string | readonly [string, string];

/** A setting with a default value. */
export function setting<T>(names: Names, type: SettingType<T>, value: NoInfer<T>) {
  const means = (help: string): Setting<T> => {
    return { ...named(names), type, default: value, defaultShown: undefined, help };
  };
  return { means };
}

/** A setting without a default value. */
export function optional<T>(names: Names, type: SettingType<T>) {
  const means = (help: string, defaultShown?: string): Setting<T, undefined> => {
    return { ...named(names), type, default: undefined, defaultShown, help };
  };
  return { means };
}

function named(names: Names) {
  const [name, otherName] = typeof names === "string" ? [names] : names;
  return { name, otherName };
}

/** The variables of a setting, of which the first counts if several are set. */
export function namesOf({ name, otherName }: Pick<Setting<unknown>, "name" | "otherName">): readonly string[] {
  return otherName === undefined ? [name] : [name, otherName];
}
