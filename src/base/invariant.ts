// Checks for bugs: an invariant holds whatever callers send. One that fails becomes gRPC INTERNAL.

export class InvariantError extends Error {
  override readonly name = "InvariantError";
}

/** Throws InvariantError unless `condition` holds. `message` says what should have held. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new InvariantError(message);
}
