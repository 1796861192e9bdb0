// Writes and reads the messages of headgate.v1.Budgets, by the field numbers of proto/headgate/v1/budgets.proto.
// Separate from reservation.ts, so that no declaration that callers see needs the types of Node.js.

import type { Degraded } from "./decision.ts";
import { checkMembers, checkWhole, describeValue } from "./misuse.ts";
import { OVER_LIMIT } from "./read-answer.ts";
import type { ReserveAnswer, ReserveRequest, Settlement } from "./reservation.ts";
import { Fields, FieldWriter } from "./wire.ts";
import { writeEntries } from "./write-request.ts";

const NAMES: readonly (keyof ReserveRequest)[] = ["domain", "entries", "amount", "id"];

/**
 * Domain, entries and id, with which both requests begin. Throws TypeError for values that the protocol can't carry.
 */
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

/**
 * The bytes of the number that ends a request: the amount, or what was used. Throws TypeError unless it is a whole
 * number.
 */
export function writeNumber(what: string, value: number): Buffer {
  checkWhole(what, value, 0, Number.MAX_SAFE_INTEGER);
  return new FieldWriter().addNumber(4, value).toBytes();
}

/** Reads a ReserveResponse. Throws for bytes that are no such message. */
export function readReserved(message: Buffer): ReserveAnswer {
  const answer = new Fields(message);
  const retryAfterSeconds = answer.wholeSeconds(3);
  const rule = answer.text(4);
  const reason = answer.text(5);
  return {
    allowed: answer.number(1) !== OVER_LIMIT,
    reserved: answer.number(6),
    remaining: answer.number(2),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    ...(rule === "" ? {} : { rule }),
    ...(reason === "" ? {} : { reason }),
    ...degradedOf(answer.bytes(7)),
  };
}

const FOUND: Readonly<Record<number, Settlement["found"]>> = { 1: "settled", 2: "unknown", 3: "already_settled" };

/** Reads a SettleResponse. Throws for bytes that are no such message. */
export function readSettled(message: Buffer): Settlement {
  const answer = new Fields(message);
  const found = FOUND[answer.number(1)];
  if (found === undefined) throw new Error("the answer does not say what the settlement found");
  return { found, remaining: answer.number(2), ...degradedOf(answer.bytes(3)) };
}

function degradedOf(message: Buffer | undefined): { readonly degraded?: Degraded } {
  if (message === undefined) return {};
  const degraded = new Fields(message);
  return { degraded: { by: "server", policy: degraded.text(1), failure: degraded.text(2) } };
}
