// Settings of who may use which pages of the HTTP port.

import { optional, setting } from "./setting.ts";
import { ADMIN_TOKEN, HOST_PATTERNS, PATH } from "./value-types.ts";

export const ADMIN_ROWS = {
  httpHosts: setting(
    "HTTP_HOSTS",
    HOST_PATTERNS,
    [],
    "Names (`limits.example.com`, or `*.example.com` for all below) by which callers may ask for `/json`, `/config` and `/rlconfig`, beside addresses, names without a dot, `*.localhost`, `*.internal`, `*.svc` and `*.svc.cluster.local`. Requests with another `Host` get 403: somebody may have pointed that name here to let a web page ask.",
  ),
  adminToken: optional(
    "ADMIN_TOKEN",
    ADMIN_TOKEN,
    "Token that `/state` (the data of the operator's page), `/top`, `/explain`, `/buckets/peek` and `/buckets/reset` require (`authorization: Bearer TOKEN`): 16 to 1024 letters, digits and `._~+/-=`.",
    { secret: true, defaultShown: "none: these pages answer only callers on the same host" },
  ),
  adminTokenFile: optional(
    "ADMIN_TOKEN_FILE",
    PATH,
    "File with tokens, instead of ADMIN_TOKEN: one per line, with a name for the log before it if wanted, at most 64. It is read again when it changes.",
    { isFile: true },
  ),
};
