// The TLS options of this package. Needs no types of Node.js.

/** TLS to the servers. */
export interface TlsOptions {
  /** PEM of the authorities to trust. Default: the public ones. */
  readonly ca?: string | Uint8Array;
  /** PEM of the client's own certificate and its key: both or neither. */
  readonly cert?: string | Uint8Array;
  readonly key?: string | Uint8Array;
  /** The name in the servers' certificates, if it differs from the name in `servers`. */
  readonly serverName?: string;
}
