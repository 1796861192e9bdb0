// Where the servers of shared stores are and how to reach them: what settings come to, and what connections are made with.

/** What TLS is made with. Files are PEM and read at every connect. */
export interface ClientTls {
  readonly certFile: string | undefined;
  readonly keyFile: string | undefined;
  /** Undefined: the public authorities. */
  readonly caFile: string | undefined;
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

/** Name and password for AUTH; without a username it is the default user's password. */
export interface RedisLogin {
  readonly username: string | undefined;
  readonly password: string;
}

/** How to reach a Redis server and log in. */
export interface RedisAccess {
  readonly database: number;
  readonly login: RedisLogin | undefined;
  /** A file that holds the password, or `user:password`; read at every connect, so that it can change. `login` is undefined then. */
  readonly loginFile: string | undefined;
  /** Undefined: no TLS. */
  readonly tls: ClientTls | undefined;
  /** How long connecting may take, and after it the login and each answer before the connection is put to use. */
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
  /** A file that holds the password; read at every connect, so that it can change. */
  readonly passwordFile: string | undefined;
  /** Undefined: no TLS. */
  readonly tls: ClientTls | undefined;
  /** How long connecting may take, and after it each answer before the connection is put to use. */
  readonly connectTimeoutMs: number;
}
