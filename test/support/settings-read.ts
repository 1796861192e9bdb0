// Settings as a start reads them: what they become, and what is said of them.

import { expect } from "vitest";
import { ConfigError } from "../../src/base/errors.ts";
import { type Environment, readSettings } from "../../src/settings/settings.ts";

/** Cases of environments by name, each with the settings that it must give. */
export type ReadCases = readonly (readonly [name: string, env: Environment, settings: object])[];

/** Cases of environments by name, each with what the one line that ends the start must say. */
export type RefusedCases = readonly (readonly [name: string, env: Environment, says: RegExp])[];

/** The lines of a start that ends; none if it does not. */
export function mistakesOf(env: Environment): readonly string[] {
  try {
    readSettings(env);
  } catch (error) {
    if (error instanceof ConfigError && error.code === "CONFIG_SETTINGS") return error.problems;
    throw error;
  }
  return [];
}

export function expectRead(env: Environment, settings: object): void {
  expect(readSettings(env)).toMatchObject(settings);
}

export function expectRefused(env: Environment, says: RegExp): void {
  expect(mistakesOf(env)).toEqual([expect.stringMatching(says)]);
}
