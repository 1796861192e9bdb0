// Where something stands in what rules are made of.

/**
 * In a file by line and column, counted from 1; in a resource, which has no lines, by its path, such as
 * `descriptors[3].rate_limit.unit`. Line and column of a resource are 0.
 */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** Only in a resource; empty at its root. */
  readonly path?: string;
}

/** True if it is in a resource. Does not put the path together, which only problems need. */
export function isInResource(at: Place): boolean {
  return "path" in at;
}
