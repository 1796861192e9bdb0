// The mirror's HTTP port: report, metrics, health.

import { refuseForeign } from "../../operate/http/cross-site.ts";
import {
  json,
  listOf,
  notFound,
  type Page,
  type PageAddress,
  PageServer,
  READ,
  text,
} from "../../operate/http/page-server.ts";
import { METRICS_TYPE } from "../../operate/telemetry/metric-text.ts";
import { type Report, reportText } from "./report.ts";

interface PagesSources {
  readonly report: () => Report;
  /** The text of all metrics. */
  readonly metrics: () => Promise<string>;
  /** Whether the answering target is connected. */
  readonly isReady: () => boolean;
  /** HTTP_HOSTS. */
  readonly hosts: readonly string[];
  readonly onError: (error: unknown) => void;
}

/** Makes the server; it does not listen yet. */
export function openPages(address: PageAddress, sources: PagesSources): PageServer {
  const { report, metrics, isReady, hosts, onError } = sources;
  const pages = new Map<string, Page>();
  const add = (path: string, help: string, answer: Page["answer"]) => pages.set(path, { methods: READ, help, answer });
  add("/", "this list", () => text(200, listOf(pages)));
  add("/report", "what differed, as text, or as JSON with Accept: application/json or ?format=json", (request) => {
    const query = request.url?.split("?", 2)[1] ?? "";
    const wantsJson = query.split("&").includes("format=json") || request.headers.accept?.includes("application/json");
    return refuseForeign(request, hosts) ?? (wantsJson ? json(200, report()) : text(200, reportText(report())));
  });
  add("/metrics", "metrics for Prometheus", async () => ({
    status: 200,
    headers: { "content-type": METRICS_TYPE },
    body: await metrics(),
  }));
  add("/healthcheck", "200 while the answering target is connected, else 500", () =>
    isReady() ? text(200, "OK") : text(500, "the answering target is not connected\n"),
  );
  add("/livez", "200 as long as the mirror works at all", () => text(200, "OK\n"));
  return new PageServer({ ...address, pages, otherPage: notFound, onError });
}
