// Sockets to a server under load, with TLS or without.

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { connect as connectTls } from "node:tls";

/** A socket that is connected, and secured if `tls` names certificates. */
export async function openSocket({ port, tls }) {
  if (tls === undefined) {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    await once(socket, "connect");
    return socket;
  }
  const [ca, cert, key] = [tls.caFile, tls.certFile, tls.keyFile].map((file) => readFileSync(file));
  const own = tls.isMutual ? { cert, key } : {};
  const socket = connectTls({ port, host: "127.0.0.1", servername: "localhost", ALPNProtocols: ["h2"], ca, ...own });
  socket.setNoDelay(true);
  await once(socket, "secureConnect");
  return socket;
}
