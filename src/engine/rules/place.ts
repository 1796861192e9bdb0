// Places in rule files and in resources of a control plane.

/**
 * In a file: line and column, counted from 1. In a resource, which has no lines: a path such as `descriptors[3].rate_limit.unit`; line
 * and column are 0.
 */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** Only in a resource: the path, empty at its root. */
  readonly path?: string;
}

/** True if the place is in a resource. Does not compute the path. */
export function isInResource(at: Place): boolean {
  return "path" in at;
}
