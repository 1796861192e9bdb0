// The HTTP port: the operator's page, /json, health, metrics, the rules in force, and the guarded pages. It knows
// nothing of limits or stores: functions give it what it shows. page-server.ts serves the pages.

import type { HealthState } from "../../base/health.ts";
import { errorMessage } from "../../base/thrown.ts";
import type { HttpCaller } from "../../grpc/unary.ts";
import type { RuleSource } from "../../rule-sources/files/rule-source.ts";
import { joinInPieces } from "../telemetry/join-in-pieces.ts";
import { METRICS_TYPE } from "../telemetry/metric-text.ts";
import { readBody } from "./body.ts";
import { refuseForeign } from "./cross-site.ts";
import { type GuardedSources, guardedPages } from "./guarded-pages.ts";
import { readOperatorsPage, wantsPage } from "./operators-page.ts";
import {
  type HttpAnswer,
  json,
  listOf,
  notFound,
  type Page,
  type PageAddress,
  PageServer,
  READ,
  text,
  withHeaders,
} from "./page-server.ts";
import { limitLines, readinessView } from "./views.ts";

/** Where the pages get what they show. */
export interface AdminSources extends GuardedSources {
  /**
   * Decides a request in proto3 JSON, unless too many are under way. Rejects only with what `readBody` rejects with.
   */
  readonly answerJson: (readBody: () => Promise<Buffer>, caller: HttpCaller) => Promise<HttpAnswer>;
  readonly health: HealthState;
  /** Rejects if the metrics can't be shown. Nothing is made before it is read. */
  readonly metricsText: () => Promise<Iterable<string>>;
  readonly rules: Pick<RuleSource, "current" | "status">;
  /** The JSON of `/config`. */
  readonly config: () => Promise<object>;
  /** Called for internal errors; must not throw. */
  readonly onError: (error: unknown) => void;
}

interface AdminOptions {
  readonly metricsPath: string;
  /** Longest body of /json. */
  readonly bodyBytesMax: number;
  /** HTTP_HOSTS. */
  readonly hosts: readonly string[];
}

/** Makes the HTTP server of the process; it does not listen yet. */
export function openAdminServer(address: PageAddress, options: AdminOptions, sources: AdminSources): PageServer {
  const pages = makePages(options, sources);
  return new PageServer({ ...address, pages, otherPage: notFound, onError: sources.onError });
}

/** Makes a server that shows the metrics and nothing else. */
export function openMetricsServer(
  address: PageAddress,
  metricsPath: string,
  { metricsText, onError }: Pick<AdminSources, "metricsText" | "onError">,
): PageServer {
  const pages = new Map([[metricsPath, metricsPage(metricsText)]]);
  return new PageServer({ ...address, pages, otherPage: notFound, onError });
}

function metricsPage(metricsText: AdminSources["metricsText"]): Page {
  return {
    methods: READ,
    help: "metrics for Prometheus",
    isLong: true,
    async answer() {
      try {
        return { status: 200, headers: { "content-type": METRICS_TYPE }, body: await metricsText() };
      } catch (error) {
        return text(503, `the metrics can't be shown: ${errorMessage(error)}\n`);
      }
    },
  };
}

function makePages(options: AdminOptions, sources: AdminSources): ReadonlyMap<string, Page> {
  const { answerJson, health, rules, config, metricsText } = sources;
  const { bodyBytesMax, hosts } = options;
  const pages = new Map<string, Page>();
  const add = (path: string, help: string, methods: Page["methods"], answer: Page["answer"], isLong = false) =>
    pages.set(path, { help, methods, isLong, answer });
  // For pages that pay, or that show the rules; probes and scrapers are no browsers and need no such check.
  const addOwn: typeof add = (path, help, methods, answer, isLong) =>
    add(path, help, methods, (request) => refuseForeign(request, hosts) ?? answer(request), isLong);
  const { page, files } = readOperatorsPage();
  add("/", "this list; in a browser the operator's page", READ, (request) =>
    wantsPage(request) ? page : withHeaders(text(200, listOf(pages)), { vary: "accept" }),
  );
  addOwn("/json", "POST a RateLimitRequest as JSON, get a decision", undefined, async (request) =>
    // Several headers of one name are joined by commas here, and the result is not a valid traceparent.
    answerJson(() => readBody(request, bodyBytesMax), {
      traceparent: request.headers.traceparent?.toString(),
      isGone: () => request.socket.destroyed || request.socket.readableEnded,
    }),
  );
  for (const [path, page] of guardedPages(sources)) pages.set(path, page);
  add("/healthcheck", "200 OK or 500", undefined, () =>
    health.isServing() ? text(200, "OK") : { status: 500, headers: {}, body: "" },
  );
  add("/livez", "200 while the process works at all", READ, () => text(200, "OK\n"));
  add("/readyz", "200, or 503 with the reasons", READ, () =>
    json(health.isServing() ? 200 : 503, readinessView(health.troubles(), health.notes(), rules.status().lastError)),
  );
  pages.set(options.metricsPath, metricsPage(metricsText));
  const configHelp = "rule files, hash, last error, warnings, certificates, snapshot, settings";
  addOwn("/config", configHelp, READ, async () => json(200, await config()), true);
  addOwn("/rlconfig", "one line per limit in force", READ, () => text(200, joinInPieces(limitLines(rules.current))));
  for (const [path, file] of files) pages.set(path, file);
  return pages;
}
