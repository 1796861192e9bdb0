// What an error of a statement means for the takes in it: whether anything ran, whether to send it again, and where.

import { DatabaseError } from "pg";

/** True if PostgreSQL itself answered with an error: the statement has no effect. */
export function isRefusal(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError;
}

/** True if the server rolled the call back; false if it may have crashed or ended just afterwards. */
export function postgresRanNothing(error: unknown): boolean {
  return isRefusal(error) && !/^(57P0|08|58|XX|40003)/.test(error.code ?? "08");
}

/**
 * True if the same call may pass when it is made again: a serialization failure, a deadlock, or a row that another call
 * made at the same time.
 */
export function isWorthRepeating(error: unknown): boolean {
  return isRefusal(error) && /^(40001|40P01|23505)$/.test(error.code ?? "");
}

/** True if the call waited for a locked row as long as a take may wait; it paid nothing. */
export function waitedTooLong(error: unknown): boolean {
  return isRefusal(error) && error.code === "55P03";
}

/**
 * If the call waited too long for a row that is not committed yet: its key as the table has it (sql/locked_takes.sql).
 */
export function keyOfMade(error: unknown): string | undefined {
  return isRefusal(error) && waitedTooLong(error) ? error.detail : undefined;
}

/**
 * True if another connection may do better: the server takes no writes, or none from this user, or the session is not
 * ours.
 */
export function needsAnotherConnection(error: unknown): boolean {
  return isRefusal(error) && /^(25006|25P03|26|57P0[1-5]|08|28|42)/.test(error.code ?? "");
}
