// The debug port of envoyproxy/ratelimit, for scripts that read it: the same paths and the same lines, nothing more.
// Everything it shows, and more, stands on the HTTP port too. There is no profiling: /debug/pprof/ does not exist here.

import type { RuleSet } from "../rules/rule-set.ts";
import { joinInPieces } from "../telemetry/join-in-pieces.ts";
import { json, type Page, type PageAddress, PageServer, text } from "./page-server.ts";
import { referenceLimitLines } from "./views.ts";

interface DebugSources {
  /** The rules in force; undefined before the first ones. */
  readonly rules: () => RuleSet | undefined;
  /** The JSON of `/stats`. */
  readonly stats: () => object;
  /** Told of faults of ours; must not throw. */
  readonly onError: (error: unknown) => void;
}

/** Makes the server; any path that it does not know gets the list of those it does, as there. */
export function openDebugServer(address: PageAddress, { rules, stats, onError }: DebugSources): PageServer {
  const pages = new Map<string, Page>();
  const list = () => text(200, [...pages].map(([path, { help }]) => `${path}: ${help}\n`).join(""));
  const add = (path: string, help: string, answer: Page["answer"]) =>
    pages.set(path, { methods: undefined, help, answer });
  // In the order of their names, as the list has them.
  add("/", "this list", list);
  add("/rlconfig", "one line per limit in force", () => {
    const inForce = rules();
    // Without any rule the recorded service sends no type.
    if (inForce === undefined || inForce.domains.size === 0) return { status: 200, headers: {}, body: "" };
    return text(200, joinInPieces(referenceLimitLines(inForce)));
  });
  add("/stats", "how the process fares, as JSON", () => json(200, stats()));
  return new PageServer({ ...address, pages, otherPage: list, onError });
}
