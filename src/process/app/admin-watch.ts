// Connects the guarded pages with log and metrics: who used them, who was refused, and which tokens are in force.

import type { AuditEntry } from "../../operate/http/bucket-pages.ts";
import type { AdminWatch } from "../../operate/http/guarded-pages.ts";
import { Tokens } from "../../operate/http/tokens.ts";
import type { AdminCounts } from "../../operate/telemetry/admin-counts.ts";
import type { AppParts } from "./app-parts.ts";

/** Opens the tokens that the settings name. Throws ConfigError if their file can't be used. */
export function openTokens({ settings, clock, logger }: AppParts): Tokens {
  const file = settings.adminTokenFile;
  return new Tokens({
    token: settings.adminToken,
    file,
    clock,
    onChange: (names) => logger.info({ file, names }, "changed admin tokens are in force"),
    onRefused: (why) => logger.error({ file, why }, "changed admin tokens can't be used; the old ones stay in force"),
  });
}

/** Logs each use of a bucket page. A reset is a warning, so that it is logged at most levels: it changes what callers may do. */
export function watchAdmin({ logger, rareLog }: AppParts, counts: AdminCounts): AdminWatch {
  return {
    used: (action, outcome) => counts.count(action, outcome),
    refused: (action, peer, reason) => {
      counts.count(action, "refused");
      rareLog.warn(`admin ${action}`, "an admin page was refused", () => ({ action, peer, reason }));
    },
    audited: ({ action, caller, domain, buckets, more }: AuditEntry) => {
      const fields = { who: caller.who, peer: caller.peer, domain, buckets, ...(more === 0 ? {} : { more }) };
      if (action === "reset") logger.warn(fields, "buckets were reset");
      else logger.info(fields, "buckets were looked at");
    },
  };
}
