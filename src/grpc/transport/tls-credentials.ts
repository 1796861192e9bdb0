// TLS for grpc-js: certificates that may change while it serves, and a required name in client certificates.

import {
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  status,
} from "@grpc/grpc-js";
import { type TlsFiles, whyNotNamed } from "./tls-files.ts";

/** Credentials that follow `files`. Clients must show a certificate if there are authorities for them. */
export class FileCredentials extends ServerCredentials {
  readonly #files: TlsFiles;

  constructor(files: TlsFiles) {
    const { requestCert = false, rejectUnauthorized = false } = files.options;
    super({ requestCert, rejectUnauthorized }, files.options);
    this.#files = files;
    files.subscribe((options) => this.updateSecureContextOptions(options));
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
