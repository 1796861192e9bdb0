// TLS to a server that takes travel to.

import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import type { ConnectionOptions } from "node:tls";
import type { ClientTls } from "../store-address.ts";

/** TLS options for a connection to this host; undefined for a Unix socket. Throws if a file can't be read. */
export function readClientTls(tls: ClientTls, host: string | undefined): ConnectionOptions {
  const options: ConnectionOptions = {};
  if (tls.caFile !== undefined) options.ca = readFileSync(tls.caFile);
  if (tls.certFile !== undefined) options.cert = readFileSync(tls.certFile);
  if (tls.keyFile !== undefined) options.key = readFileSync(tls.keyFile);
  if (host !== undefined && isIP(host) === 0) options.servername = host;
  if (tls.skipsHostName) options.checkServerIdentity = () => undefined;
  return options;
}
