// Settings of the guarded pages of the HTTP port.

import { optional } from "./setting.ts";
import { ADMIN_TOKEN, PATH } from "./value-types.ts";

export const ADMIN_ROWS = {
  adminToken: optional(
    "ADMIN_TOKEN",
    ADMIN_TOKEN,
    "Token that `/state` (the data of the operator's page), `/top`, `/explain`, `/buckets/peek` and `/buckets/reset` require (`authorization: Bearer TOKEN`).",
    { secret: true, defaultShown: "none: these pages answer only callers on the same host" },
  ),
  adminTokenFile: optional(
    "ADMIN_TOKEN_FILE",
    PATH,
    "File with tokens, instead of ADMIN_TOKEN: one per line, with a name for the log before it if wanted. It is read again when it changes.",
    { isFile: true },
  ),
};
