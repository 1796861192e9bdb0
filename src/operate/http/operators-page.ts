// The operator's page for browsers: serves the files of the folder `page` unchanged. The page holds no data; it asks
// the guarded pages. The reasons: docs/decisions/0025-operators-page.md.

import { readdirSync, readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { extname } from "node:path";
import { type HttpAnswer, type Page, READ, withHeaders } from "./page-server.ts";

/** The folder `page` is next to src and dist, in the repository and in the package. */
const FOLDER = new URL("../../../page/", import.meta.url);

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".mjs": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Allows only files of this port: no inline script or style, no text that becomes markup, no frame around the page. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const HEADERS = {
  "content-security-policy": POLICY,
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

/** Reads the page for `/`, and the files that it loads, by path. Throws if the folder or index.html is missing. */
export function readOperatorsPage(): { readonly page: HttpAnswer; readonly files: ReadonlyMap<string, Page> } {
  const names = readdirSync(FOLDER).filter((name) => TYPES[extname(name)] !== undefined);
  const answers = new Map(names.map((name) => [name, answerOf(name)]));
  const page = answers.get("index.html");
  if (page === undefined) throw new Error(`expected index.html in ${FOLDER.pathname}`);
  const files = [...answers].map(([name, answer]): [string, Page] => [
    `/page/${name}`,
    { methods: READ, help: "", answer: () => answer },
  ]);
  return { page: withHeaders(page, { vary: "accept" }), files: new Map(files) };
}

/** Whether the client accepts HTML, as browsers do; curl does not, and gets the list of pages. */
export function wantsPage({ headers }: IncomingMessage): boolean {
  return /(?:^|,)\s*text\/html\s*(?:[;,]|$)/i.test(headers.accept ?? "");
}

function answerOf(name: string): HttpAnswer {
  const headers = { ...HEADERS, "content-type": TYPES[extname(name)] ?? "" };
  return { status: 200, headers, body: readFileSync(new URL(name, FOLDER)) };
}
