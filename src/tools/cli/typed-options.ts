// Options that are read as settings are, and shares in percent.

import { InvalidArgumentError, Option } from "commander";
import { durationMs, type SettingType } from "../../process/settings/value-types.ts";

/** An option whose default is given and shown in the help as one would type it. */
export function typed<T>(flags: string, description: string, parse: (text: string) => T, preset: string): Option {
  return new Option(flags, description).argParser(parse).default(parse(preset), preset);
}

/** Reads an option like a setting of that type. */
export function readAs<T>(type: SettingType<T>): (text: string) => T {
  return (text) => {
    const value = type.parse(text);
    if (value === undefined) throw new InvalidArgumentError(`Expected ${type.expects}.`);
    return value;
  };
}

/** Reads a time such as 100ms or 1m. */
export function duration(minMs: number, maxMs: number): (text: string) => number {
  return readAs(durationMs(minMs, maxMs));
}

/** Reads a share in percent as 0 to 1. */
export function parseShare(text: string): number {
  const percent = /^\d{1,3}(?:\.\d{1,6})?%?$/.test(text) ? Number.parseFloat(text) : Number.NaN;
  if (percent <= 100) return percent / 100;
  throw new InvalidArgumentError("Expected a share such as 1%.");
}
