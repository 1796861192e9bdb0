// The debug port of envoyproxy/ratelimit, for scripts that read it: its paths and its lines, nothing more. The HTTP
// port shows all of it too. There is no profiling, so /debug/pprof/ does not exist.

import { joinInPieces } from "../telemetry/join-in-pieces.ts";
import { refuseForeign } from "./cross-site.ts";
import { json, type Page, type PageAddress, PageServer, text } from "./page-server.ts";
import type { AdminSources } from "./server.ts";
import { referenceLimitLines } from "./views.ts";

/**
 * Makes the server; `hosts` are HTTP_HOSTS. An unknown path gets the list of known ones, as in envoyproxy/ratelimit.
 */
export function openDebugServer(
  address: PageAddress,
  hosts: readonly string[],
  { rules, onError }: Pick<AdminSources, "rules" | "onError">,
): PageServer {
  const pages = new Map<string, Page>();
  const list = () => text(200, [...pages].map(([path, { help }]) => `${path}: ${help}\n`).join(""));
  const add = (path: string, help: string, answer: Page["answer"]) =>
    pages.set(path, {
      methods: undefined,
      help,
      answer: (request) => refuseForeign(request, hosts) ?? answer(request),
    });
  // In the order of the paths: the list keeps the order in which they are added.
  add("/", "this list", list);
  add("/rlconfig", "one line per limit in force", () => {
    const inForce = rules.current;
    // Without any rule envoyproxy/ratelimit sends no content type, as recorded from it.
    if (inForce === undefined || inForce.domains.size === 0) return { status: 200, headers: {}, body: "" };
    return text(200, joinInPieces(referenceLimitLines(inForce)));
  });
  add("/stats", "how the process fares, as JSON", () => json(200, processStats()));
  return new PageServer({ ...address, pages, otherPage: list, onError });
}

// The names of Go's runtime with the nearest values of Node. Of the command line only the program: arguments may hold
// secrets.
function processStats(): object {
  const { heapUsed, heapTotal, rss, external } = process.memoryUsage();
  return {
    cmdline: process.argv.slice(0, 2),
    memstats: { Alloc: heapUsed, HeapAlloc: heapUsed, HeapSys: heapTotal, OtherSys: external, Sys: rss },
  };
}
