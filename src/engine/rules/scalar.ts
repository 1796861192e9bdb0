// Resolves unquoted and tagged scalars as the reference service's parser does (YAML 1.1), so that files written for it
// mean the same here. The readers decide which types they accept.

/** The value of a scalar. Numbers beyond 2^53 are rounded; `bytes` is one-byte text. */
export type ScalarValue =
  | { readonly type: "null" }
  | { readonly type: "text" }
  | { readonly type: "boolean"; readonly boolean: boolean }
  | { readonly type: "integer"; readonly number: number }
  /** A whole number above the signed 64-bit range that still fits 64 bits. */
  | { readonly type: "large integer"; readonly number: number }
  | { readonly type: "float"; readonly number: number }
  | { readonly type: "binary"; readonly bytes: string };

const TAG_PREFIX = "tag:yaml.org,2002:";
const RESOLVED_TAGS = new Set(["bool", "int", "float", "null"]);

const NULL: ScalarValue = { type: "null" };
const TEXT: ScalarValue = { type: "text" };
const WORDS: ReadonlyMap<string, ScalarValue> = new Map<string, ScalarValue>([
  ...["", "~", "null", "Null", "NULL"].map((word): [string, ScalarValue] => [word, NULL]),
  ...["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"].map(booleanWord(true)),
  ...["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"].map(booleanWord(false)),
  ...[".nan", ".NaN", ".NAN"].map(floatWord(Number.NaN)),
  ...[".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"].map(floatWord(Number.POSITIVE_INFINITY)),
  ...["-.inf", "-.Inf", "-.INF"].map(floatWord(Number.NEGATIVE_INFINITY)),
]);

const INT64_MAX = 2n ** 63n - 1n;
const UINT64_MAX = 2n ** 64n - 1n;
// Longer text can't be a 64-bit number in any base; the bound keeps hostile files from making huge bigints.
const INTEGER_CHARS_MAX = 80;

/**
 * Resolves a scalar. `tag` is the full tag, empty if there isn't one; `isQuoted` is true for block scalars too. Returns
 * a sentence that says what is wrong if text and tag contradict each other.
 */
export function resolveScalar(text: string, tag: string, isQuoted: boolean): ScalarValue | string {
  if (tag === "") return isQuoted ? TEXT : resolvePlain(text);
  if (!tag.startsWith(TAG_PREFIX)) return TEXT;
  const name = tag.slice(TAG_PREFIX.length);
  if (name === "binary") return decodeBinary(text);
  if (name === "timestamp") return "the tag !!timestamp is not allowed here; remove it";
  if (!RESOLVED_TAGS.has(name)) return TEXT;
  return fitToTag(text, name);
}

function fitToTag(text: string, tagName: string): ScalarValue | string {
  const value = resolvePlain(text);
  if (tagName === "float" && value.type === "integer") return { type: "float", number: value.number };
  if (TAG_OF_TYPE[value.type] === tagName) return value;
  return `'${text}' does not match its tag !!${tagName}`;
}

const TAG_OF_TYPE: Readonly<Record<ScalarValue["type"], string>> = {
  null: "null",
  text: "str",
  boolean: "bool",
  integer: "int",
  "large integer": "int",
  float: "float",
  binary: "binary",
};

/** Resolves a scalar without tag and quotes. */
export function resolvePlain(text: string): ScalarValue {
  const word = WORDS.get(text);
  if (word !== undefined) return word;
  const first = text.charCodeAt(0);
  const isDigit = first >= 0x30 && first <= 0x39;
  if (first === 0x2e) return /^\.[0-9]+([eE][-+]?[0-9]+)?$/.test(text) ? floatOrText(text) : TEXT;
  if (!isDigit && first !== 0x2b && first !== 0x2d) return TEXT;
  return resolveNumber(text.replaceAll("_", ""));
}

function resolveNumber(text: string): ScalarValue {
  if (text.length > INTEGER_CHARS_MAX) return decimalOrText(text);
  const parts = /^([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))$/.exec(text);
  if (parts === null) return decimalOrText(text);
  const [, sign, hex, binary, octal, decimal] = parts;
  const digits =
    hex !== undefined
      ? `0x${hex}`
      : binary !== undefined
        ? `0b${binary}`
        : octal !== undefined
          ? `0o${octal}`
          : decimal;
  const magnitude = BigInt(digits ?? "0");
  const signed = sign === "-" ? -magnitude : magnitude;
  if (signed >= -INT64_MAX - 1n && signed <= INT64_MAX) return { type: "integer", number: Number(signed) };
  if (sign === "" && signed <= UINT64_MAX) return { type: "large integer", number: Number(signed) };
  return decimalOrText(text);
}

function decimalOrText(text: string): ScalarValue {
  return /^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$/.test(text) ? floatOrText(text) : TEXT;
}

// As in the reference's parser, a number too large for a double is text.
function floatOrText(text: string): ScalarValue {
  const number = Number(text);
  return Number.isFinite(number) ? { type: "float", number } : TEXT;
}

function decodeBinary(text: string): ScalarValue | string {
  const base64 = text.replace(/[\r\n]/g, "");
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(base64)) {
    return "expected base64 text for the tag !!binary";
  }
  return { type: "binary", bytes: Buffer.from(base64, "base64").toString("latin1") };
}

function booleanWord(boolean: boolean): (word: string) => [string, ScalarValue] {
  return (word) => [word, { type: "boolean", boolean }];
}

function floatWord(number: number): (word: string) => [string, ScalarValue] {
  return (word) => [word, { type: "float", number }];
}
