// Settings of the pages that not everybody may use.

import { optional } from "./setting.ts";
import { ADMIN_TOKEN, PATH } from "./value-types.ts";

export const ADMIN_ROWS = {
  adminToken: optional(
    "ADMIN_TOKEN",
    ADMIN_TOKEN,
    "Token that `/state` (the data of the operator's page), `/top`, `/explain`, `/buckets/peek` and `/buckets/reset` want (`authorization: Bearer TOKEN`).",
    { secret: true, defaultShown: "none: these pages answer callers on the same host only" },
  ),
  adminTokenFile: optional(
    "ADMIN_TOKEN_FILE",
    PATH,
    "File with such tokens in place of ADMIN_TOKEN: one per line, after a name for the log if it has one. Read again when it changes.",
    { isFile: true },
  ),
};
