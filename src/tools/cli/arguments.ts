// What is typed on a command line: descriptors, addresses, and values that are read as settings are.

import { type Command, InvalidArgumentError, Option } from "commander";
import { visible } from "../../base/visible.ts";
import { doubtOf, readTyped } from "../../engine/domain/entry-text.ts";
import type { WrittenEntry } from "../../engine/domain/request.ts";
import {
  decimalNumber,
  durationMs,
  LISTEN_ADDRESS,
  type SettingType,
  textLike,
  wholeNumber,
} from "../../settings/value-types.ts";
import { paint, type Terminal } from "./terminal.ts";

/** A descriptor as typed. */
export type TypedDescriptor = readonly WrittenEntry[];

/** Default ports. */
const GRPC_PORT = 8081;
const HTTP_PORT = 8080;

export const DESCRIPTORS = "descriptors as key=value,key2=value2; write \\, for a comma in a value";

/** Reads `key=value,key2=value2`, and warns of a value that looks like two entries. For arguments that repeat. */
export function descriptorParser(terminal: Terminal): Repeatable<TypedDescriptor> {
  return collect((text) => readDescriptor(text, terminal));
}

/** The same for values that must be text. */
export function textParser(terminal: Terminal): Repeatable<TypedDescriptor> {
  return collect((text) => {
    const entries = readDescriptor(text, terminal);
    const odd = entries.find(({ valueBase64 }) => valueBase64 !== undefined);
    if (odd !== undefined) throw expected(`expected UTF-8 as the value of '${odd.key}', got '${text}'`);
    return entries;
  });
}

function readDescriptor(text: string, terminal: Terminal): TypedDescriptor {
  const entries = readTyped(text);
  if (typeof entries === "string") throw expected(entries);
  const doubt = doubtOf(entries);
  if (doubt !== undefined) terminal.err(`${paint(terminal, "yellow", visible(`warning: ${doubt}`))}\n`);
  return entries;
}

type Repeatable<T> = (text: string, before: readonly T[] | undefined) => readonly T[];

function collect<T>(parse: (text: string) => T): Repeatable<T> {
  return (text, before = []) => [...before, parse(text)];
}

/** A host without a port, with one. */
function withPort(text: string, port: number): string {
  return text.replace(/^[\w.-]+(?=\/|$)/, `$&:${port}`);
}

/** Reads `host:port`, or a host with gRPC on its usual port. */
export function parseAuthority(typedText: string): string {
  const text = withPort(typedText, GRPC_PORT);
  const address = LISTEN_ADDRESS.parse(text);
  if (address !== undefined && address.port > 0 && !text.startsWith(":")) return text;
  const hint = /^\w+:\/\//.test(text) ? " without a scheme" : "";
  throw expected(`expected host:port${hint}, got '${text}'`);
}

/** Reads `host`, `host:port` or a URL without query and login. Returns the URL without a trailing slash. */
export function parseHttpServer(text: string): string {
  const [, scheme, authority = "", path = ""] =
    /^(https?:\/\/)?([^\s/?#@\\]+)(\/[^\s?#]*)?$/i.exec(withPort(text, HTTP_PORT)) ?? [];
  const url = `${scheme ?? "http://"}${authority}${path.replace(/\/+$/, "")}`;
  const address = LISTEN_ADDRESS.parse(scheme === undefined || /:\d+$/.test(authority) ? authority : `${authority}:80`);
  if (address === undefined || address.port === 0 || authority.startsWith(":")) {
    throw expected(`expected host:port or a URL such as http://host:port, got '${text}'`);
  }
  return url;
}

/** Reads the addresses of several HTTP ports, separated by commas. */
export function parseHttpServers(text: string): readonly string[] {
  return [...new Set(text.split(/\s*,\s*/).map(parseHttpServer))];
}

/** An option whose default is written, and shown in the help, as typed. */
export function typed<T>(flags: string, description: string, parse: (text: string) => T, preset: string): Option {
  return new Option(flags, description).argParser(parse).default(parse(preset), preset);
}

/** The option --server, which HEADGATE_SERVER gives if nothing is typed. */
export function serverOption<T>(
  flags: string,
  description: string,
  parse: (text: string) => T,
  preset?: string,
): Option {
  const option =
    preset === undefined ? new Option(flags, description).argParser(parse) : typed(flags, description, parse, preset);
  return option.env("HEADGATE_SERVER");
}

/** Drops a server that only HEADGATE_SERVER names, if the command line says where to look `instead`. */
export function dropServer(flags: { server?: unknown }, command: Command, instead: boolean): void {
  if (instead && command.getOptionValueSource("server") === "env") delete flags.server;
}

/** Reads an option like a setting of that type. */
export function readAs<T>(type: SettingType<T>): (text: string) => T {
  return (text) => {
    const value = type.parse(text);
    if (value === undefined) throw expected(`expected ${type.expects}`);
    return value;
  };
}

/** Reads what may not be empty; `what` as "a path". */
export function someText(what: string): (text: string) => string {
  return readAs(textLike("text", what, /./s));
}

/** Reads a whole number. */
export function whole(min: number, max: number): (text: string) => number {
  return readAs(wholeNumber(min, max));
}

/** Reads a decimal number. */
export function decimal(min: number, max: number): (text: string) => number {
  return readAs(decimalNumber(min, max));
}

/** Reads a time such as 100ms or 1m. */
export function duration(minMs: number, maxMs: number): (text: string) => number {
  return readAs(durationMs(minMs, maxMs));
}

/** Reads a share in percent as 0 to 1. */
export function parseShare(text: string): number {
  const percent = /^\d{1,3}(?:\.\d{1,6})?%?$/.test(text) ? Number.parseFloat(text) : Number.NaN;
  if (percent <= 100) return percent / 100;
  throw expected("expected a share such as 1%");
}

/** An error that commander shows after the option's name. */
export function expected(says: string): InvalidArgumentError {
  return new InvalidArgumentError(`${says.charAt(0).toUpperCase()}${visible(says.slice(1))}.`);
}

/** A hint for descriptors without a limit: a blank may stand where a comma belongs. `unmet`: their indexes. */
export function unmetText(unmet: readonly number[], asked: readonly TypedDescriptor[]): string {
  if (unmet.length === 0 || asked.length < 2 || asked.some(({ length }) => length > 1)) return "";
  const places = unmet.map((at) => at + 1).join(", ");
  return `\nNo limit for descriptor ${places} of ${asked.length}. Commas separate the entries of a descriptor.\n`;
}
