// Addresses, logins and TLS of the shared stores' servers. settings reads them from the environment.

/** TLS towards a server. Files are PEM and read again for every connection. */
export interface ClientTls {
  readonly certFile: string | undefined;
  readonly keyFile: string | undefined;
  /** Authorities of the server's certificate; undefined: the public authorities that Node.js has. */
  readonly caFile: string | undefined;
  /** True: the name in the server's certificate is not checked. */
  readonly skipsHostName: boolean;
}

/** Where one server listens by TCP. */
export interface TcpAddress {
  readonly kind: "tcp";
  readonly host: string;
  readonly port: number;
}

/** Where one Redis server listens. */
export type RedisAddress = TcpAddress | { readonly kind: "unix"; readonly path: string };

/** Name and password for AUTH. Without a username Redis takes the password as the default user's. */
export interface RedisLogin {
  readonly username: string | undefined;
  readonly password: string;
}

/** How to reach a Redis server and log in. */
export interface RedisAccess {
  readonly database: number;
  readonly login: RedisLogin | undefined;
  /** A file with the password, or `user:password`, read again for every connection. `login` is undefined then. */
  readonly loginFile: string | undefined;
  /** Undefined: no TLS. */
  readonly tls: ClientTls | undefined;
  /**
   * Bound for connecting, then for the login and for each further answer before the connection is used. In
   * milliseconds.
   */
  readonly connectTimeoutMs: number;
}

/** Where PostgreSQL is and how to reach it. */
export interface PostgresTarget {
  /** A host name, an address, or the absolute path of the folder that holds the server's Unix socket. */
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly password: string | undefined;
  /** A file with the password, read again for every connection. */
  readonly passwordFile: string | undefined;
  /** Undefined: no TLS. */
  readonly tls: ClientTls | undefined;
  /** Bound for connecting, then for each answer before the connection is used. In milliseconds. */
  readonly connectTimeoutMs: number;
}
