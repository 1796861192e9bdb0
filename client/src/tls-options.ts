// TLS towards the servers, as callers of this package write it. Needs no types of Node.js.

/** TLS towards the servers. `true`: with the public authorities. */
export interface TlsOptions {
  /** Authorities to trust, PEM; without them the public ones. */
  readonly ca?: string | Uint8Array;
  /** The client's own certificate and key, PEM: both or none. */
  readonly cert?: string | Uint8Array;
  readonly key?: string | Uint8Array;
  /** Name that the servers' certificates carry, where it is not the one they are called by. */
  readonly serverName?: string;
}
