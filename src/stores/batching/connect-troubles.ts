// Why a server can't be reached, by the code of the error: the end of a sentence that begins with the server's name. What a
// server says itself is for its store to know.

/** What is said of a server that hung up. */
export const HUNG_UP = "closed the connection";

/** By the error's `code`. */
export const CONNECT_TROUBLES: Readonly<Record<string, string>> = {
  ECONNREFUSED: "refuses connections: nothing listens there",
  ENOTFOUND: "can't be found: its host name has no address",
  EAI_AGAIN: "can't be found: the name service does not answer",
  ETIMEDOUT: "can't be reached in time",
  EHOSTUNREACH: "can't be reached: there is no route to its host",
  ENETUNREACH: "can't be reached: there is no route to its network",
  ECONNRESET: HUNG_UP,
  EPIPE: HUNG_UP,
  ENOENT: "can't be reached: the socket does not exist",
  EACCES: "can't be reached: this process has no permission for the socket",
  SELF_SIGNED_CERT_IN_CHAIN: "shows a certificate that is not trusted: it is signed by an unknown authority",
  DEPTH_ZERO_SELF_SIGNED_CERT: "shows a certificate that is not trusted: it is signed by itself",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "shows a certificate that is not trusted: it is signed by an unknown authority",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "shows a certificate that is not trusted: it is signed by an unknown authority",
  CERT_HAS_EXPIRED: "shows a certificate that has expired",
  ERR_TLS_CERT_ALTNAME_INVALID: "shows a certificate for another host name",
};
