// Header fields of gRPC: timeouts, content types, encodings, messages.

/** Microseconds of the units of a grpc-timeout. */
const MICROS_OF_UNIT: Readonly<Record<string, number>> = {
  H: 3_600_000_000,
  M: 60_000_000,
  S: 1_000_000,
  m: 1_000,
  u: 1,
  n: 0.001,
};
const TIMEOUT_DIGITS_MAX = 8;
export const GRPC_CONTENT = "application/grpc";
/** Longer messages are cut, because they travel in a header. */
const MESSAGE_CHARS_MAX = 1_024;

export const INVALID_TIMEOUT = "Invalid grpc-timeout; expected at most 8 digits and one of H, M, S, m, u, n";

/**
 * The only encoding that is accepted. A call of some hundred bytes gains nothing from compression, and 4 KB may
 * decompress to 4 MB.
 */
export const TAKEN_ENCODING = "identity";
export const COMPRESSED = `compressed messages are not accepted; expected grpc-encoding: ${TAKEN_ENCODING}`;

/**
 * Microseconds of a `grpc-timeout` such as `20m`, or NaN if it is invalid. Parsed by hand, because nearly every call
 * has one.
 */
export function readTimeoutUs(value: string): number {
  const digits = value.length - 1;
  if (digits < 1 || digits > TIMEOUT_DIGITS_MAX) return Number.NaN;
  let amount = 0;
  for (let i = 0; i < digits; i++) {
    const digit = value.charCodeAt(i) - 0x30;
    if (digit < 0 || digit > 9) return Number.NaN;
    amount = amount * 10 + digit;
  }
  return amount * (MICROS_OF_UNIT[value[digits] as string] ?? Number.NaN);
}

/** Whether a content-type is gRPC's, with or without a subtype. */
export function isGrpcContent(value: string): boolean {
  if (!value.startsWith(GRPC_CONTENT)) return false;
  const next = value[GRPC_CONTENT.length];
  return next === undefined || next === "+" || next === ";";
}

/**
 * The message in the form of `grpc-message`: printable ASCII except `%` stays, all other bytes of its UTF-8 become %XX.
 */
export function percentEncoded(message: string): string {
  const text = message.length > MESSAGE_CHARS_MAX ? message.slice(0, MESSAGE_CHARS_MAX) : message;
  if (/^[ -$&-~]*$/.test(text)) return text;
  let encoded = "";
  for (const byte of Buffer.from(text, "utf8")) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += isPlain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return encoded;
}
