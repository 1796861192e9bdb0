// Rows of the store's table: the settings of PostgreSQL.

import { optional, setting } from "./setting.ts";
import { BOOLEAN, durationMs, PATH, TEXT, textLike, wholeNumber } from "./value-types.ts";

/** A name that PostgreSQL accepts without truncation, between double quotes. */
const SCHEMA_NAME = textLike(
  "text",
  "a name of up to 63 letters, digits and underscores, beginning with a letter",
  /^[a-z][a-z0-9_]{0,62}$/i,
);

/** Rows by the field of Settings. */
export const POSTGRES_ROWS = {
  postgresUrl: optional(
    "POSTGRES_URL",
    TEXT,
    "PostgreSQL (15 or newer): `postgres://user:password@host:port/database`. `?sslmode=verify-full` uses TLS; `verify-ca` and `require` use TLS and do not check the host name. `?host=/folder` uses the Unix socket in that folder.",
    { secret: true },
  ),
  postgresPassword: optional("POSTGRES_PASSWORD", TEXT, "Password of PostgreSQL.", { secret: true }),
  postgresPasswordFile: optional(
    "POSTGRES_PASSWORD_FILE",
    PATH,
    "File with the password. It is read again for every connection, so that passwords can change.",
    { isFile: true },
  ),
  postgresSchema: setting(
    "POSTGRES_SCHEMA",
    SCHEMA_NAME,
    "headgate",
    "Schema for the tables and functions that Headgate creates.",
  ),
  postgresConnections: setting(
    "POSTGRES_CONNECTIONS",
    wholeNumber(1, 64),
    4,
    "Connections to PostgreSQL for takes, per process. Each carries the takes of one turn at a time. One further connection counts processes and deletes expired rows.",
  ),
  postgresUnlogged: optional(
    "POSTGRES_UNLOGGED",
    BOOLEAN,
    "`true` keeps the buckets out of PostgreSQL's write-ahead log. This is faster, but the buckets are empty after a crash and absent from standbys. `false` logs them again. All processes need the same value.",
    { defaultShown: "as the tables are; new tables are logged" },
  ),
  postgresSynchronousCommit: setting(
    "POSTGRES_SYNCHRONOUS_COMMIT",
    BOOLEAN,
    false,
    "A call is answered once its payment is on the disk of PostgreSQL and of synchronous standbys. Otherwise a crash may lose the last 0.6 s of payments.",
  ),
  postgresTlsCaFile: optional(
    "POSTGRES_TLS_CACERT",
    PATH,
    "File of the certificate authority for PostgreSQL's certificate (PEM).",
    { isFile: true, defaultShown: "the public authorities" },
  ),
  postgresTlsCertFile: optional("POSTGRES_TLS_CLIENT_CERT", PATH, "File of the client certificate (PEM).", {
    isFile: true,
  }),
  postgresTlsKeyFile: optional("POSTGRES_TLS_CLIENT_KEY", PATH, "File of the client certificate's key (PEM).", {
    isFile: true,
  }),
  postgresConnectTimeoutMs: setting(
    "POSTGRES_TIMEOUT",
    durationMs(10, 600_000),
    2_000,
    "How long connecting to PostgreSQL may take.",
  ),
} as const;
