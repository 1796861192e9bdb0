// The parsed form of a rules file, which the compiler reads: mappings, sequences and scalars with their places. It is
// independent of the syntax.

import type { ScalarValue } from "./scalar.ts";

export interface ScalarNode {
  readonly kind: "scalar";
  readonly at: Place;
  /** The text after quotes and escapes are resolved. */
  readonly text: string;
  /** True for quoted and block scalars, which are always text. */
  readonly isQuoted: boolean;
  /** The resolved value. */
  readonly value: ScalarValue;
}

interface SequenceNode {
  readonly kind: "sequence";
  readonly at: Place;
  readonly items: readonly SourceNode[];
}

export interface MappingEntry {
  readonly key: ScalarNode;
  readonly value: SourceNode;
  /** True if the entry came through a merge key (`<<`). */
  readonly isMerged: boolean;
}

/** A mapping with merge keys resolved. A later entry overrides an earlier one with the same key. */
export interface MappingNode {
  readonly kind: "mapping";
  readonly at: Place;
  readonly entries: readonly MappingEntry[];
}

/** A node. Because of aliases a node may have several parents, but there are no cycles. */
export type SourceNode = ScalarNode | SequenceNode | MappingNode;

/**
 * One file, or one resource of a control plane. If it could not be parsed, `root` is undefined and `problems` says why.
 */
export interface SourceFile {
  /** Path relative to the rules directory, with forward slashes; for a resource `resource` and its name. */
  readonly name: string;
  /** True for a resource. Its tree has those keys of a rules file for which the messages have fields. */
  readonly isResource?: boolean;
  readonly root: SourceNode | undefined;
  readonly problems: readonly Problem[];
}

/**
 * In a file: line and column, counted from 1. In a resource, which has no lines: a path such as
 * `descriptors[3].rate_limit.unit`; line and column are 0.
 */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** Only in a resource: the path, empty at its root. */
  readonly path?: string;
}

/** Where a file or resource begins. */
export function placeOfFile(file: string, isResource = false): Place {
  return isResource ? { file, line: 0, column: 0, path: "" } : { file, line: 1, column: 1 };
}

/** True if the place is in a resource. Does not compute the path. */
export function isInResource(at: Place): boolean {
  return "path" in at;
}

/** A mistake in a rule file, with its place. An error refuses the whole set. */
export interface Problem extends Place {
  readonly severity: "error" | "warning";
  readonly message: string;
  /** What to change, or what the author may have meant, as a sentence. */
  readonly suggestion?: string;
}
