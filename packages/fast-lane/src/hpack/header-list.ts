// The fields of one header block, in the order sent. Each connection fills one list again and again.

import type { NameId } from "./header-names.ts";
import { FIELD_OVERHEAD_BYTES } from "./header-table.ts";

/** Names and values as one-byte text; only the first `count` elements are valid. */
export class HeaderList {
  count = 0;
  /** Size of the fields, as SETTINGS_MAX_HEADER_LIST_SIZE counts it. */
  size = 0;
  /**
   * True if decoding the same bytes again, with the table unchanged, gives the same list and leaves the table
   * unchanged.
   */
  isRepeatable = true;
  readonly names: string[] = [];
  readonly values: string[] = [];
  readonly nameIds: NameId[] = [];

  clear(): void {
    this.count = 0;
    this.size = 0;
    this.isRepeatable = true;
  }

  add(name: string, value: string, nameId: NameId): void {
    const at = this.count++;
    this.names[at] = name;
    this.values[at] = value;
    this.nameIds[at] = nameId;
    this.size += name.length + value.length + FIELD_OVERHEAD_BYTES;
  }
}
