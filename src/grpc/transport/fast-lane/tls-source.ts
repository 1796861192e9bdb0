// The certificates of the port in the form of node:tls, made anew when the files have changed.

import type { TLSSocket, TlsOptions } from "node:tls";
import { type TlsFiles, type TlsMaterial, whyNotNamed } from "../tls-files.ts";

/** The source of TLS options. They may change at any time; the next connection gets the new ones. */
export interface TlsSource {
  /** The options in force; the same object until they change. */
  current(): TlsOptions;
  /** Why no call of this client is served although its certificate was verified; undefined if calls are served. */
  refusalOf(socket: TLSSocket): string | undefined;
}

/** Follows `files`. Clients must show a certificate if there are authorities for them. */
export function tlsSourceOf(files: TlsFiles): TlsSource {
  const { clientName } = files.names;
  let material: TlsMaterial | undefined;
  let options: TlsOptions = {};
  return {
    current() {
      if (material === files.material) return options;
      material = files.material;
      options = optionsOf(material);
      return options;
    },
    refusalOf(socket) {
      return clientName === undefined ? undefined : whyNotNamed(socket.getPeerCertificate().raw, clientName);
    },
  };
}

// With `ca` set, Node trusts these authorities alone.
function optionsOf({ cert, key, clientCa }: TlsMaterial): TlsOptions {
  const asksClients = clientCa !== undefined;
  return {
    cert,
    key,
    ...(asksClients && { ca: clientCa }),
    minVersion: "TLSv1.2",
    requestCert: asksClients,
    rejectUnauthorized: asksClients,
  };
}
