// Reads what a node of a Redis Cluster tells about the cluster: the slots of each primary, and the epoch of that view.

import type { TcpAddress } from "../store-address.ts";
import { SLOTS } from "./key-slot.ts";

/** Consecutive slots of one primary. */
export interface SlotRange {
  readonly first: number;
  readonly last: number;
  readonly primary: TcpAddress;
}

/** Most ranges in a reply: one per slot. */
const RANGES_MAX = SLOTS;

/** The ranges of a CLUSTER SLOTS reply. `asked` is the address of a node that the reply names without one. Throws TypeError. */
export function readSlots(reply: unknown, asked: TcpAddress): SlotRange[] {
  if (!Array.isArray(reply) || reply.length > RANGES_MAX)
    throw new TypeError("CLUSTER SLOTS replied with something else");
  return reply.map((entry: unknown) => {
    const [first, last, node]: unknown[] = Array.isArray(entry) ? entry : [];
    const [host, port]: unknown[] = Array.isArray(node) ? node : [];
    if (typeof first !== "number" || typeof last !== "number" || first < 0 || first > last || last >= SLOTS)
      throw new TypeError("CLUSTER SLOTS named slots that are none");
    return { first, last, primary: addressOf(host, port, asked) };
  });
}

/** The epoch of a CLUSTER INFO reply; a later view of the cluster has a higher one. 0 if the reply has none. */
export function readEpoch(reply: unknown): number {
  const epoch = /^cluster_current_epoch:(\d{1,15})/m.exec(String(reply))?.[1];
  return epoch === undefined ? 0 : Number(epoch);
}

/** The target of a MOVED or ASK error from the node at `asked`; undefined if the error is neither. */
export function readRedirection(
  message: string,
  asked: TcpAddress,
): { readonly isAsk: boolean; readonly slot: number; readonly address: TcpAddress } | undefined {
  const [, word, slotText, host, port] = /^(MOVED|ASK) (\d{1,5}) (.*):(\d{1,5})$/.exec(message) ?? [];
  const slot = Number(slotText);
  if (word === undefined || !(slot < SLOTS)) return undefined;
  return { isAsk: word === "ASK", slot, address: addressOf(host, Number(port), asked) };
}

/** The name of a node: its address. */
export function nodeNameOf({ host, port }: TcpAddress): string {
  return `${host}:${port}`;
}

function addressOf(host: unknown, port: unknown, asked: TcpAddress): TcpAddress {
  const text = host === null || host === undefined ? "" : String(host);
  // A node that does not know its own address sends an empty string or a question mark.
  const known = text === "" || text === "?" ? asked.host : text;
  if (typeof port !== "number" || port < 1 || port > 65_535) throw new TypeError("a node of the cluster has no port");
  return { kind: "tcp", host: known, port };
}
