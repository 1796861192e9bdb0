// The certificates of the port in the form that node:tls takes, new whenever the files have changed.

import { X509Certificate } from "node:crypto";
import type { TLSSocket, TlsOptions } from "node:tls";
import { carriesName, type TlsFiles, type TlsMaterial } from "../tls-files.ts";

/** Where the options of TLS come from. They may change at any time: the next connection gets the new ones. */
export interface TlsSource {
  /** The options in force, the same object until they change. */
  current(): TlsOptions;
  /** Why no call of this client is served although its certificate was verified; undefined serves it. */
  refusalOf(socket: TLSSocket): string | undefined;
}

/** Follows `files`: clients must show a certificate if there are authorities for them. */
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
      if (clientName === undefined) return undefined;
      const { raw } = socket.getPeerCertificate();
      if (raw !== undefined && carriesName(new X509Certificate(raw), clientName)) return undefined;
      return `the client certificate does not carry the name ${clientName} (GRPC_CLIENT_TLS_SAN)`;
    },
  };
}

// Only the authorities that were named: with `ca` set, Node trusts no others.
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
