// The code of README.md, docs/clients.md and the packages' READMEs, compiled by somebody who has nothing but the package: strictly, against
// its declarations alone. Frameworks are stood in for by the parts of their types that inference depends on.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { complaintsAbout, packed } from "../support/strangers.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** What the blocks take for granted. Express has `use` and `get` with such overloads, Fastify a hook as one of a union. */
const SURROUNDINGS = `
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Limiter } from "@headgate/client";

interface Asked extends IncomingMessage { ip: string | undefined; path: string; method: string; url: string }
interface Answered extends ServerResponse { send(body: string): this }
type Next = (error?: any) => void;
type Handler<Query = { [key: string]: unknown }> = (request: Asked & { query: Query }, response: Answered, next: Next) => unknown;
type ErrorHandler<Query> = (error: any, request: Asked & { query: Query }, response: Answered, next: Next) => unknown;
type AnyHandler<Query> = Handler<Query> | ErrorHandler<Query> | (Handler<Query> | ErrorHandler<Query>)[];
interface App {
  use(...handlers: Handler[]): this;
  use<Query>(...handlers: AnyHandler<Query>[]): this;
  use<Query>(path: string | RegExp, ...handlers: AnyHandler<Query>[]): this;
}
interface Routed { ip: string; method: string; url: string; headers: IncomingMessage["headers"]; raw: IncomingMessage }
interface Reply { sent: boolean; code(status: number): Reply; header(name: string, value: unknown): Reply; send(body?: unknown): Reply }
type Hook = (request: Routed, reply: Reply, done: Next) => void;
type AsyncHook = (request: Routed, reply: Reply) => Promise<unknown>;
interface Fastify {
  addHook<Each extends Hook | AsyncHook = Hook>(name: "onRequest", hook: Each): Fastify;
  get(path: string, options: { onRequest?: Hook | AsyncHook | (Hook | AsyncHook)[] }, handler: () => Promise<string>): Fastify;
}

declare global {
  const app: App;
  const fastify: Fastify;
  const limiter: Limiter;
  function rateLimit(options: { windowMs: number; limit: number; store: object }): Handler;
  function askModel(prompt: string, limits: { maxTokens: number }): Promise<{ text: string; tokens: number }>;
  const checksFailed: { inc(labels: { code: string }): void };
}
`;

/** More than the documents show, as people write it. */
const MORE = `
import { addressOf, expressLimit, fastifyLimit, pathOf, type RoutedRequestLike } from "@headgate/client";
const byMethod = (request: RoutedRequestLike) => ({ domain: "edge", descriptors: [{ method: request.method }] });
app.use(expressLimit(limiter, byMethod));
app.use("/api", expressLimit(limiter, ({ path }: { path: string }) => (path === "/livez" ? undefined : { domain: "edge", descriptors: [{ path: pathOf(path) }] })));
fastify.get("/", { onRequest: fastifyLimit(limiter, ({ ip }) => ({ domain: "edge", hits: 10, descriptors: [{ remote_address: addressOf(ip, { ipv6: 56 }) }] })) }, async () => "");
`;

/** Each is a mistake that must not compile. */
const MISTAKES = [
  'import { createLimiter } from "@headgate/client"; createLimiter({ server: "localhost:8081" });',
  'import { createLimiter } from "@headgate/client"; createLimiter({ servers: ["a:1"], deadlineMs: "100" });',
  'export const decision = limiter.check({ domain: "edge", descriptors: [{ user: undefined }] });',
  'import { expressLimit } from "@headgate/client"; app.use(expressLimit(limiter, ({ ip }) => ({ domain: "edge", descriptors: [{ ip }] })));',
];

// Promise(clients): The TypeScript of the docs compiles in a strict project.
test("compiles in a strict project of a stranger, and mistakes do not", () => {
  const blocks = [
    "README.md",
    "docs/clients.md",
    "docs/from-express-rate-limit.md",
    "packages/client/README.md",
  ].flatMap(blocksOf);
  expect(blocks.length).toBeGreaterThan(3);
  const good = new Map([...blocks, MORE].map((code, i) => [`block-${i}.ts`, `${code}\nexport {};\n`]));
  const mistakes = new Map(MISTAKES.map((code, i) => [`mistake-${i}.ts`, code]));
  const files = new Map([["surroundings.ts", SURROUNDINGS], ...good, ...mistakes]);
  const folder = strangerProject("client");
  for (const [name, code] of files) writeFileSync(join(folder, name), code);
  const options = { target: "ES2023", module: "NodeNext", types: ["node"] };
  const out = complaintsAbout(folder, [...files.keys()], options);
  const broken = new Set([...out.matchAll(/^(\S+)\(\d+,\d+\): error/gm)].map((match) => match[1]));
  expect([...broken].sort(), out).toEqual([...mistakes.keys()]);
});

test.each(["fast-lane", "verify"])("compiles as the README of %s has it", (name) => {
  const [code = ""] = blocksOf(`packages/${name}/README.md`);
  const folder = strangerProject(name);
  writeFileSync(join(folder, "readme.ts"), code);
  expect(code).toContain(`from "@headgate/${name}"`);
  expect(complaintsAbout(folder, ["readme.ts"], { target: "ES2023", module: "NodeNext", types: ["node"] })).toBe("");
});

function blocksOf(file: string): string[] {
  const text = readFileSync(join(ROOT, file), "utf8");
  return [...text.matchAll(/^```[tj]s\n(.*?)^```$/gms)].map(([, code = ""]) => code);
}

/** A project with the packed package as its only dependency, and the types of Node.js. */
function strangerProject(name: string): string {
  const folder = temporaryFolder("headgate-stranger");
  const modules = join(folder, "node_modules");
  const there = join(modules, "@headgate", name);
  mkdirSync(there, { recursive: true });
  mkdirSync(join(modules, "@types"));
  execFileSync("tar", ["xzf", packed(`packages/${name}`), "--strip-components=1", "-C", there]);
  cpSync(join(ROOT, "node_modules/@types/node"), join(modules, "@types/node"), { recursive: true });
  symlinkSync(join(ROOT, "node_modules/undici-types"), join(modules, "undici-types"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  return folder;
}
