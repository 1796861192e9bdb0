// Converts the text of environment variables into values: one SettingType per kind of value. Names and defaults are in
// the tables.

import { unlessThrown } from "../base/thrown.ts";

/** Reads and shows one kind of value. */
export interface SettingType<T> {
  /** The type's name in docs/settings.md. */
  readonly label: string;
  /** The end of the sentence "expected ...". */
  readonly expects: string;
  /**
   * The value; undefined if the text is not of this type. The text is not empty, and trimmed unless the setting is
   * secret.
   */
  parse(text: string): T | undefined;
  /** The value as the variable would be written. */
  show(value: T): string;
  /** True: the text is never shown, and `show` leaves out what is secret. */
  readonly isSecret?: boolean;
  /** True: the value is the path of a file that must be readable at the start. */
  readonly isFile?: boolean;
}

/** Shown in place of secrets. */
const REDACTED = "[redacted]";

const CONTROL = /\p{Cc}/u;

const TRUE_WORDS: readonly string[] = ["1", "t", "T", "TRUE", "true", "True"];
const FALSE_WORDS: readonly string[] = ["0", "f", "F", "FALSE", "false", "False"];

/** Booleans as Go's strconv.ParseBool accepts them. */
export const BOOLEAN: SettingType<boolean> = {
  label: "boolean",
  expects: "true or false",
  parse: (text) => (TRUE_WORDS.includes(text) ? true : FALSE_WORDS.includes(text) ? false : undefined),
  show: String,
};

/** Any text of one line. */
export const TEXT: SettingType<string> = {
  label: "text",
  expects: "text of one line",
  parse: (text) => (CONTROL.test(text) ? undefined : text),
  show: (value) => value,
};

/** Any text of one line that is never shown. */
export const SECRET = secret(TEXT);

/** The same values, never shown. */
function secret<T>(type: SettingType<T>): SettingType<T> {
  return { ...type, show: () => REDACTED, isSecret: true };
}

/** Text that a pattern describes. */
export function textLike(label: string, expects: string, pattern: RegExp): SettingType<string> {
  return { label, expects, parse: (text) => (pattern.test(text) ? text : undefined), show: (value) => value };
}

/** A token for admin pages: valid in a header without encoding, and too long to guess. */
export const ADMIN_TOKEN = secret(
  textLike("text", "16 to 1024 letters, digits and ._~+/-=", /^(?=.{16,1024}$)[A-Za-z0-9._~+/-]+=*$/),
);

/** The path of a file or directory, which need not exist. */
export const PATH: SettingType<string> = {
  ...TEXT,
  label: "path",
  expects: "a path",
  // Refuses a key or certificate that was given in place of its file.
  parse: (text) => (text.includes("-----BEGIN") ? undefined : TEXT.parse(text)),
};

/** The path of a file that is read. */
export const FILE: SettingType<string> = { ...PATH, isFile: true };

/** The path of a Unix socket; the system cuts longer ones (macOS; Linux has room for four bytes more). */
export const SOCKET_PATH = shortPath("a path of at most 103 bytes", 103);

/**
 * The path of a file that gets a socket next to it. Sockets' paths have at most 104 bytes, of which a suffix takes 12.
 */
export const SNAPSHOT_PATH = shortPath("a path of at most 90 bytes that does not end in a slash", 90, /[^/]$/);

function shortPath(expects: string, bytesMax: number, pattern = /^/): SettingType<string> {
  const parse = (text: string) =>
    Buffer.byteLength(text) <= bytesMax && pattern.test(text) ? PATH.parse(text) : undefined;
  return { ...PATH, expects, parse };
}

/** A prefix of all bucket keys. Without braces, which would add a second Redis Cluster hash tag. */
export const KEY_PREFIX = textLike(
  "text",
  "at most 64 printable ASCII characters without spaces and braces",
  /^[!-z|~]{1,64}$/,
);

/** A TCP port; 0 lets the system choose a free one. */
export const PORT: SettingType<number> = {
  ...wholeNumber(0, 65_535),
  label: "port",
  expects: "a port number from 0 to 65535",
};

/** A host name or an IP address to listen on. */
export const HOST_NAME = textLike(
  "host",
  "a host name or an IP address, without a port",
  /^(?:[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(?:%[\w.-]+)?)$/,
);

/** Names of hosts in lower case, without their last dots; `*.` before a name means all names below it. */
export const HOST_PATTERNS = listOfAll(
  "host names",
  "a comma-separated list of host names without ports, such as limits.example.com,*.example.net",
  (text) => /^(?:\*\.)?[a-z0-9_-][a-z0-9._-]{0,252}$/.exec(text.toLowerCase().replace(/\.$/, ""))?.[0],
);

/** An address to listen on, as Go writes it: `:9090` means port 9090 of every address. */
export const LISTEN_ADDRESS: SettingType<{ readonly host: string; readonly port: number }> = {
  label: "host:port",
  expects: "host:port or :port",
  parse: (text) => {
    const [, bracketed, plain = "", portText = ""] = /^(?:\[([^\]]+)\]|([^:[\]]*)):(\d+)$/.exec(text) ?? [];
    const port = PORT.parse(portText);
    const host = HOST_NAME.parse(bracketed ?? (plain === "" ? "0.0.0.0" : plain));
    return port === undefined || host === undefined ? undefined : Object.freeze({ host, port });
  },
  show: ({ host, port }) => `${host.includes(":") ? `[${host}]` : host}:${port}`,
};

/** The name of an HTTP header: a token of RFC 9110, at most 256 characters. */
export const HEADER_NAME = textLike(
  "header name",
  "a header name (letters, digits and !#$%&'*+-.^_`|~)",
  /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$/,
);

/** A path of the HTTP port. */
export const URL_PATH = textLike("URL path", "a path that begins with a slash, such as /metrics", /^\/[\w./~-]*$/);

/** Whole numbers within bounds. */
export function wholeNumber(min: number, max: number): SettingType<number> {
  const read = (text: string) => (/^\d{1,15}$/.test(text) ? Number(text) : undefined);
  return within(min, max, "integer", `a whole number from ${min} to ${max}`, read);
}

function within(
  min: number,
  max: number,
  label: string,
  expects: string,
  read: (text: string) => number | undefined,
): SettingType<number> {
  const parse = (text: string) => {
    const value = read(text) ?? Number.NaN;
    return value >= min && value <= max ? value : undefined;
  };
  return { label, expects, parse, show: String };
}

/** Decimal numbers within bounds. */
export function decimalNumber(min: number, max: number): SettingType<number> {
  const read = (text: string) => (/^(?=.*\d)\d{0,15}\.?\d{0,15}$/.test(text) ? Number(text) : undefined);
  return within(min, max, "number", `a number from ${min} to ${max}`, read);
}

/** One of `words`, in any case. `aliases` maps further words to one of them. All words must be in lower case. */
export function oneOf<const T extends string>(
  words: readonly T[],
  aliases: Readonly<Record<string, T>> = {},
): SettingType<T> {
  return {
    label: words.join(", "),
    expects: words.length === 1 ? `${words[0]}` : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`,
    parse: (text) => words.find((word) => word === text.toLowerCase()) ?? aliases[text.toLowerCase()],
    show: (value) => value,
  };
}

/** A list of `words` separated by commas; repeated ones count once. All words must be in lower case. */
export function listOfWords<const T extends string>(words: readonly T[]): SettingType<readonly T[]> {
  const names = words.join(", ");
  return listOfAll(`list of ${names}`, `a comma-separated list of ${names}`, oneOf(words).parse);
}

/** A list that commas separate, each part of which can be read. */
function listOfAll<T extends string>(
  label: string,
  expects: string,
  read: (text: string) => T | undefined,
): SettingType<readonly T[]> {
  const parse = (text: string) => {
    const found = text.split(",").map((part) => read(part.trim()));
    return found.every((part) => part !== undefined) ? Object.freeze([...new Set(found)]) : undefined;
  };
  return { label, expects, parse, show: (parts) => parts.join(",") };
}

/**
 * Texts by name, such as `a=1,b=2` if `sign` is `=`. If a name is given twice, the last one counts. `decode` reads each
 * of them, and `encode` writes it.
 */
function pairs(
  sign: "=" | ":",
  expects: string,
  isPair: (name: string, text: string) => boolean,
  [decode, encode]: readonly [(text: string) => string | undefined, (text: string) => string] = [String, String],
): SettingType<ReadonlyMap<string, string>> {
  return {
    label: "pairs",
    expects,
    parse: (text) => {
      const found = new Map<string, string>();
      for (const part of text.split(",").filter((piece) => piece.trim() !== "")) {
        const at = part.indexOf(sign);
        const name = decode(part.slice(0, Math.max(0, at)).trim());
        const value = decode(part.slice(at + 1).trim());
        if (!name || value === undefined || CONTROL.test(part) || !isPair(name, value)) return undefined;
        found.set(name, value);
      }
      return found;
    },
    show: (value) => [...value].map((pair) => pair.map(encode).join(sign)).join(","),
  };
}

/** Any text by name. */
export const TEXTS = pairs("=", "a comma-separated list of name=value, such as a=1,b=2", () => true);

/** Tags, without characters that have a meaning in statsd's lines. */
export const TAGS = pairs(":", "a comma-separated list of key:value, such as env:prod,zone:a", (...pair) =>
  pair.every((text) => /^[^\s:|,#@]+$/.test(text)),
);

/** Metadata of gRPC calls. Names that end in `-bin` would need bytes as values. */
export const METADATA = secret(
  pairs(
    ":",
    "a comma-separated list of name:value, names of letters, digits and _.- without the ending -bin, values in ASCII",
    (name, text) => /^(?!.*-bin$)[\w.-]+$/i.test(name) && /^[ -~]*$/.test(text),
  ),
);

const PERCENT = [percentDecoded, (text: string) => text.replace(/[%,=]/g, encodeURIComponent)] as const;

/** OpenTelemetry's attributes. */
export const ATTRIBUTES = pairs("=", "name=value,name2=value2 with percent-encoded values", () => true, PERCENT);

/** OpenTelemetry's headers. */
export const OTLP_HEADERS = secret(
  pairs(
    "=",
    "names of headers with percent-encoded values in ASCII, as name=value,name2=value2",
    (name, text) => HEADER_NAME.parse(name) !== undefined && /^[ -~]*$/.test(text),
    PERCENT,
  ),
);

export const HTTP_ADDRESS = textLike(
  "URL",
  "an http:// or https:// URL without user, query and fragment",
  /^https?:\/\/[\w.:[\]-]+(?:\/[\w./~%-]*)?$/,
);

/** The URL of a collector. Its query may be secret, so it is not shown. */
export const OTLP_URL: SettingType<string> = {
  label: "URL",
  expects: "an http:// or https:// URL without user and password",
  parse: (text) => {
    if (CONTROL.test(text) || !URL.canParse(text)) return undefined;
    const { protocol, username, password } = new URL(text);
    return /^https?:$/.test(protocol) && username === "" && password === "" ? text : undefined;
  },
  show: (text) => {
    const { protocol, host, pathname } = new URL(text);
    return `${protocol}//${host}${pathname}`;
  },
  isSecret: true,
};

/** Durations in Go's notation, as microseconds from `minUs` to `maxUs`. */
export function durationUs(minUs: number, maxUs: number): SettingType<number> {
  const expects = `a duration from ${showDuration(minUs)} to ${showDuration(maxUs)}, such as 10s, 150us or 1h30m`;
  return { ...within(minUs, maxUs, "duration", expects, parseGoDuration), show: showDuration };
}

/** Durations in Go's notation, as milliseconds from `minMs` to `maxMs`, rounded up. */
export function durationMs(minMs: number, maxMs: number): SettingType<number> {
  const inUs = durationUs(minMs * 1_000, maxMs * 1_000);
  return {
    ...inUs,
    parse: (text) => {
      const us = inUs.parse(text);
      return us === undefined ? undefined : Math.ceil(us / 1_000);
    },
    show: (ms) => showDuration(ms * 1_000),
  };
}

const NS_PER: Readonly<Record<string, number>> = {
  ns: 1,
  us: 1_000,
  // Go accepts the micro sign and the Greek letter mu.
  "\u00b5s": 1_000,
  "\u03bcs": 1_000,
  ms: 1_000_000,
  s: 1_000_000_000,
  m: 60_000_000_000,
  h: 3_600_000_000_000,
};
/** Digits after the point of an amount. */
const FRACTION_MAX = 15;
const PARTS_PER_US = 1_000n * 10n ** BigInt(FRACTION_MAX);

/** A duration of 0 or more in Go's notation, as microseconds rounded up. Undefined for any other text. */
export function parseGoDuration(text: string): number | undefined {
  if (text === "0") return 0;
  if (!/^\+?(?:(?:\d{1,15}\.?\d{0,15}|\.\d{1,15})(?:ns|us|\u00b5s|\u03bcs|ms|s|m|h))+$/.test(text)) return undefined;
  // Counted in 10^-15 ns: floating point would make 0.1ms 101 microseconds, and a hundred days one microsecond too
  // long.
  let parts = 0n;
  for (const [, whole = "", fraction = "", unit = ""] of text.matchAll(/(\d*)\.?(\d*)([a-z\u00b5\u03bc]+)/g))
    parts += BigInt(whole + fraction.padEnd(FRACTION_MAX, "0")) * BigInt(NS_PER[unit] ?? 0);
  return Number((parts + PARTS_PER_US - 1n) / PARTS_PER_US);
}

/** A duration in Go's notation without zero parts: 90000000 becomes 1m30s. */
export function showDuration(us: number): string {
  if (us === 0) return "0s";
  let left = us;
  let shown = "";
  for (const unit of ["h", "m", "s", "ms", "us"]) {
    const unitUs = (NS_PER[unit] ?? 1_000) / 1_000;
    const count = Math.floor(left / unitUs);
    if (count > 0) shown += `${count}${unit}`;
    left -= count * unitUs;
  }
  return shown;
}

/** Decodes percent-encoded UTF-8; undefined for other text. */
export function percentDecoded(text: string): string | undefined {
  return unlessThrown(URIError, () => decodeURIComponent(text));
}
