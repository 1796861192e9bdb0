// What header fields of gRPC mean, for all that read them.

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
const CONTENT_TYPE = "application/grpc";

export const INVALID_TIMEOUT = "Invalid grpc-timeout; expected at most 8 digits and one of H, M, S, m, u, n";

/**
 * Whoever compresses a call gets UNIMPLEMENTED: it has some hundred bytes and gains nothing, and 4 KB may decompress to 4 MB. Of encodings
 * only this one is taken.
 */
export const TAKEN_ENCODING = "identity";
export const COMPRESSED = `compressed messages are not taken here; expected grpc-encoding: ${TAKEN_ENCODING}`;

/** Microseconds of a `grpc-timeout` such as `20m`, or NaN if it is invalid. Parsed by hand, because nearly every call has one. */
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
  if (!value.startsWith(CONTENT_TYPE)) return false;
  const next = value[CONTENT_TYPE.length];
  return next === undefined || next === "+" || next === ";";
}
