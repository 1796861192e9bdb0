// The answer to one call, as the edges show it. Pooled like the request; knows no wire format.

import type { Limit } from "./limit.ts";

/** What is said of one descriptor. */
export class Status {
  overLimit = false;
  /** Shown as `current_limit`; undefined shows none. */
  limit: Limit | undefined;
  /** Cost that would still pass; shown as at most 2^32 - 1. */
  remaining = 0;
  /** Whether `duration_until_reset` is sent, and its whole seconds. */
  hasReset = false;
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
  /** Sent as dynamic metadata: a JSON-like object. A frozen one may be sent again and again. */
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
