// The answer to one call, before it is encoded for a protocol. Pooled, as the request is.

import type { Limit } from "./limit.ts";

/** The answer for one descriptor. */
export class Status {
  overLimit = false;
  /** Sent as `current_limit`; undefined: none is sent. */
  limit: Limit | undefined;
  /** Cost that would still pass; sent as at most 2^32 - 1. */
  remaining = 0;
  /** Whether `duration_until_reset` is sent. */
  hasReset = false;
  /** `duration_until_reset` in whole seconds. */
  resetSeconds = 0;

  reset(): void {
    this.overLimit = false;
    this.limit = undefined;
    this.remaining = 0;
    this.hasReset = false;
    this.resetSeconds = 0;
  }
}

/** A response header to add. */
class Header {
  key = "";
  value = "";
}

/** A whole answer: one status per descriptor in order, headers, metadata. */
export class Decision {
  overLimit = false;
  statusCount = 0;
  readonly statuses: Status[] = [];
  headerCount = 0;
  readonly headers: Header[] = [];
  /** Sent as dynamic metadata: a JSON-like object. If it is frozen, its encoded bytes may be reused (grpc/rls/struct.ts). */
  metadata: Readonly<Record<string, unknown>> | undefined;

  addStatus(): Status {
    let status = this.statuses[this.statusCount];
    if (status === undefined) {
      status = new Status();
      this.statuses[this.statusCount] = status;
    }
    this.statusCount++;
    status.reset();
    return status;
  }

  addHeader(key: string, value: string): void {
    let header = this.headers[this.headerCount];
    if (header === undefined) {
      header = new Header();
      this.headers[this.headerCount] = header;
    }
    this.headerCount++;
    header.key = key;
    header.value = value;
  }

  reset(): void {
    this.overLimit = false;
    this.statusCount = 0;
    this.headerCount = 0;
    this.metadata = undefined;
  }
}
