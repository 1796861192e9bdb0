// TLS for grpc-js: certificates that may change while it serves, and a required name in client certificates.

import type { SecureContextOptions } from "node:tls";
import {
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  status,
} from "@grpc/grpc-js";
import { type TlsFiles, type TlsMaterial, whyNotNamed } from "./tls-files.ts";

/** Credentials that follow `files`. Clients must show a certificate if there are authorities for them. */
export class FileCredentials extends ServerCredentials {
  readonly #files: TlsFiles;

  constructor(files: TlsFiles) {
    const asksClients = files.names.clientCaFile !== undefined;
    super({ requestCert: asksClients, rejectUnauthorized: asksClients }, contextOf(files.material));
    this.#files = files;
    files.subscribe((material) => this.updateSecureContextOptions(contextOf(material)));
  }

  _equals(other: ServerCredentials): boolean {
    return other instanceof FileCredentials && other.#files === this.#files;
  }
}

/** Refuses calls with UNAUTHENTICATED, before anything is decoded, if the client certificate does not carry `name`. */
export function clientNameInterceptor(name: string): ServerInterceptor {
  return (_method, call) => {
    const details = whyNotNamed(call.getAuthContext().sslPeerCertificate?.raw, name);
    if (details === undefined) return new ServerInterceptingCall(call);
    return new ServerInterceptingCall(call, {
      start: (next) => {
        next(new ServerListenerBuilder().build());
        call.sendStatus({ code: status.UNAUTHENTICATED, details });
      },
    });
  };
}

// With `ca` set, Node trusts these authorities alone.
function contextOf({ cert, key, clientCa }: TlsMaterial): SecureContextOptions {
  return { cert, key, ...(clientCa === undefined ? {} : { ca: clientCa }), minVersion: "TLSv1.2" };
}
