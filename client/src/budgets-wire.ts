// Writes and reads the messages of headgate.v1.Budgets, by the field numbers of proto/headgate/v1/budgets.proto. Separate from
// reservation.ts, so that no declaration that callers see needs the types of Node.js.

import type { Degraded } from "./decision.ts";
import { checkMembers, checkWhole, describeValue } from "./misuse.ts";
import { OVER_LIMIT } from "./read-answer.ts";
import type { ReserveAnswer, ReserveRequest, Settlement } from "./reservation.ts";
import { bytesOf, FieldWriter, numberOf, readFields, readWholeSeconds, textOf } from "./wire.ts";
import { writeEntries } from "./write-request.ts";

const NAMES: readonly (keyof ReserveRequest)[] = ["domain", "entries", "amount", "id"];

/** Domain, entries and id, with which both requests begin. Throws TypeError for values that the protocol can't carry. */
export function writeHold(request: ReserveRequest, id: string): Buffer {
  checkMembers("reserve", request, NAMES);
  const { domain, entries } = request;
  if (typeof domain !== "string" || domain === "") {
    throw new TypeError(`domain: expected the domain of a rule file, got ${describeValue(domain)}`);
  }
  if (typeof id !== "string" || id === "") {
    throw new TypeError(`id: expected text that names this reservation alone, got ${describeValue(id)}`);
  }
  const message = new FieldWriter().addBytes(1, domain);
  if (writeEntries(entries, 2, message) === 0) throw new TypeError("entries: expected at least one, got none");
  return message.addBytes(3, id).toBytes();
}

/** The bytes of the number that ends a request: the amount, or what was used. Throws TypeError unless it is a whole number. */
export function writeNumber(what: string, value: number): Buffer {
  checkWhole(what, value, 0, Number.MAX_SAFE_INTEGER);
  return new FieldWriter().addNumber(4, value).toBytes();
}

/** Reads a ReserveResponse. Throws for bytes that are no such message. */
export function readReserved(message: Buffer): ReserveAnswer {
  let allowed = true;
  let reserved = 0;
  let remaining = 0;
  let retryAfterSeconds: number | undefined;
  let rule = "";
  let reason = "";
  let degraded: Degraded | undefined;
  readFields(message, (field, value) => {
    if (field === 1) allowed = numberOf(value) !== OVER_LIMIT;
    else if (field === 2) remaining = numberOf(value);
    else if (field === 3) retryAfterSeconds = readWholeSeconds(bytesOf(value));
    else if (field === 4) rule = textOf(value);
    else if (field === 5) reason = textOf(value);
    else if (field === 6) reserved = numberOf(value);
    else if (field === 7) degraded = readDegraded(bytesOf(value));
  });
  return {
    allowed,
    reserved,
    remaining,
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    ...(rule === "" ? {} : { rule }),
    ...(reason === "" ? {} : { reason }),
    ...(degraded === undefined ? {} : { degraded }),
  };
}

const FOUND: Readonly<Record<number, Settlement["found"]>> = { 1: "settled", 2: "unknown", 3: "already_settled" };

/** Reads a SettleResponse. Throws for bytes that are no such message. */
export function readSettled(message: Buffer): Settlement {
  let found: Settlement["found"] | undefined;
  let remaining = 0;
  let degraded: Degraded | undefined;
  readFields(message, (field, value) => {
    if (field === 1) found = FOUND[numberOf(value)];
    else if (field === 2) remaining = numberOf(value);
    else if (field === 3) degraded = readDegraded(bytesOf(value));
  });
  if (found === undefined) throw new Error("the answer does not say what the settlement found");
  return { found, remaining, ...(degraded === undefined ? {} : { degraded }) };
}

function readDegraded(message: Buffer): Degraded {
  let policy = "";
  let failure = "";
  readFields(message, (field, value) => {
    if (field === 1) policy = textOf(value);
    else if (field === 2) failure = textOf(value);
  });
  return { by: "server", policy, failure };
}
