// A call that was no message, such as a line of a log or a case, and the message that asks the same.

import { WireWriter } from "../../base/wire.ts";
import type { WrittenEntry } from "../../engine/domain/request.ts";

/** A limit that a caller brings along. */
interface WrittenOverride {
  readonly amount: number;
  readonly unit: number;
  /** How many units its window has; undefined: one. */
  readonly units?: number;
  /** How it counts, as rule files name it; undefined: a sliding window. */
  readonly algorithm?: string;
}

/** A descriptor of a question. */
export interface CallDescriptor {
  /** Bytes: a value that is no UTF-8. */
  readonly entries: readonly (readonly [key: string, value: string | Buffer])[];
  /** Hits of this descriptor, below 2^64; undefined: the call's. */
  readonly hits?: number | undefined;
  readonly isRefund?: boolean | undefined;
  /** A limit that the caller brings along. */
  readonly override?: WrittenOverride | undefined;
}

/** An entry as people write it. */
export function askedEntry({ key, value, valueBase64 }: WrittenEntry): CallDescriptor["entries"][number] {
  return [key, valueBase64 === undefined ? value : Buffer.from(valueBase64, "base64")];
}

/** What a call asks. */
interface AskedCall {
  readonly domain: string;
  readonly descriptors: readonly CallDescriptor[];
  /** Hits of the call; 0 means 1. */
  readonly hitsAddend: number;
}

const writer = new WireWriter();

/** The wire form of a RateLimitRequest. */
export function messageOf({ domain, descriptors, hitsAddend }: AskedCall): Buffer {
  writer.clear();
  writer.writeTextField(1, domain);
  for (const descriptor of descriptors) embed(2, () => writeDescriptor(descriptor));
  writer.writeVarintField(3, hitsAddend);
  return Buffer.from(writer.view());
}

function writeDescriptor({ entries, hits, isRefund = false, override }: CallDescriptor): void {
  for (const [key, value] of entries) {
    embed(1, () => {
      writer.writeTextField(1, key);
      embed(2, () => writer.writeBytes(Buffer.from(value)));
    });
  }
  if (override !== undefined) {
    embed(2, () => {
      writer.writeVarintField(1, override.amount);
      writer.writeVarintField(2, override.unit);
      const { units, algorithm } = override;
      if (units !== undefined) embed(3, () => writer.writeVarintField(1, units));
      if (algorithm !== undefined) writer.writeTextField(14, algorithm);
    });
  }
  if (hits !== undefined) embed(3, () => writer.writeVarintField(1, hits));
  writer.writeVarintField(4, isRefund ? 1 : 0);
}

/** Writes text, bytes or a message as the field. */
function embed(field: number, write: () => void): void {
  const at = writer.openMessage(field);
  write();
  writer.closeMessage(at);
}
