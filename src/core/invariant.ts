// Programmer errors: what must hold whatever callers send. A failed invariant becomes gRPC INTERNAL.

export class InvariantError extends Error {
  override readonly name = "InvariantError";
}

/** Throws InvariantError unless `condition` holds. `message` says what should have held. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new InvariantError(message);
}
