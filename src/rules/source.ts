// The parsed form of a rules file that the compiler reads: mappings, sequences and scalars with their places.
// Who parsed it, and from what, is not known here.

import type { Place } from "./place.ts";
import type { Problem } from "./rule-set.ts";
import type { ScalarValue } from "./scalar.ts";

export type { Place } from "./place.ts";

export interface ScalarNode {
  readonly kind: "scalar";
  readonly at: Place;
  /** As written, quotes and escapes undone. */
  readonly text: string;
  /** True if the text stands in quotes or in a block: then it's text whatever it looks like. */
  readonly isQuoted: boolean;
  /** What the text means. */
  readonly value: ScalarValue;
}

export interface SequenceNode {
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

/** A mapping with merge keys resolved. Entries stand in the order in which they apply: a later one overrides. */
export interface MappingNode {
  readonly kind: "mapping";
  readonly at: Place;
  readonly entries: readonly MappingEntry[];
}

/** A node; aliases make nodes shared, never cyclic. */
export type SourceNode = ScalarNode | SequenceNode | MappingNode;

/** One file, or a resource that a control plane sent. `root` is undefined if it could not be parsed; `problems` then says why. */
export interface SourceFile {
  /** Relative to the rules directory, with forward slashes; `resource` and its name of a resource. */
  readonly name: string;
  /** True for a resource. Its tree has the keys of a rules file, as far as its messages have fields for them. */
  readonly isResource?: boolean;
  readonly root: SourceNode | undefined;
  readonly problems: readonly Problem[];
}
