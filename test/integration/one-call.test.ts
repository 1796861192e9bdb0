// The files that docs/architecture.md names on the way of a call are the files whose code runs (V8 counts the calls of
// every function while one call is answered) and those of the types that this code names.

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type ClientHttp2Session, connect } from "node:http2";
import type { Profiler } from "node:inspector";
import { Session } from "node:inspector/promises";
import { basename, dirname, join, normalize, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { SHOULD_RATE_LIMIT_PATH } from "../../src/grpc/transport/load-proto.ts";
import { RedisServer } from "../support/redis-server.ts";
import { startTestApp } from "../support/test-app.ts";

const RULES = "domain: edge\ndescriptors:\n  - key: tenant\n    rate_limit: { tokens_per_second: 1000, burst: 1000 }\n";
// A descriptor tenant=acme of that domain.
const MESSAGE = Buffer.from("00000000180a04656467651210" + "0a0e0a0674656e616e74120461636d65", "hex");
/** After these, blocks of headers are remembered and pools are filled. */
const CALLS_BEFORE = 600;
/** Calls that are counted, each by itself: what runs in every one of them belongs to the call, and not to a timer. */
const CALLS_COUNTED = 20;

const redis = await RedisServer.start();

const SECTION = readFileSync(resolve(import.meta.dirname, "../../docs/architecture.md"), "utf8")
  .split("## One call\n")[1]
  ?.split("\n## ")[0] as string;

/** The tables' files, each with its folder: those of the call with the memory store, and those of one Redis. */
function filesOfTables(): readonly (readonly string[])[] {
  const tables = SECTION.split("| in | files | what they do |\n|---|---|---|\n").slice(1);
  return tables.map((table) => {
    let folder = "";
    const [rows = ""] = table.split("\n\n");
    return rows.split("\n").flatMap((row) => {
      const [, where = "", files = ""] = row.split("|");
      folder = /`([^`]+)`/.exec(where)?.[1] ?? folder;
      return [...files.matchAll(/`([^`]+\.(?:ts|lua))`/g)].map(([, file]) => `${folder}/${file}`);
    });
  });
}

/** Those that have types alone. */
const OF_TYPES = [...SECTION.matchAll(/`([\w-]+\.ts)` \| types only/g)].map(([, file = ""]) => file);

const SOURCES = resolve(import.meta.dirname, "../../src");

/** The text of a file, which is named as the tables name it. */
function textOf(file: string): string {
  return readFileSync(resolve(SOURCES, /^(?:packages|lua)\//.test(file) ? `../${file}` : file), "utf8");
}

/** The files of src and of packages, without `base`, of which a file imports types. */
function typeFilesOf(file: string): readonly string[] {
  const imports = textOf(file).matchAll(/^import (type )?\{([^}]+)\} from "(\.[^"]+)";$/gm);
  return [...imports]
    .filter(([, all, names = ""]) => all !== undefined || /\btype /.test(names))
    .map(([, , , path = ""]) => normalize(join(dirname(file), path)))
    .filter((path) => !path.startsWith("base/"));
}

/** The types of a row of the table, and how many the row says there are. */
function typesOf(row: string): { readonly said: number; readonly types: readonly string[] } {
  const [, said = "", names = ""] = new RegExp(`\\| ${row}, (\\d+) \\| (.+) \\|`).exec(SECTION) ?? [];
  return { said: Number(said), types: [...names.matchAll(/`(\w+)`/g)].map(([, type = ""]) => type) };
}

function declares(text: string, type: string): boolean {
  return new RegExp(`^(?:export )?(?:abstract )?(?:class|interface|type) ${type}\\b`, "m").test(text);
}

/** The files, without their folders, that are asked or told on the way. */
function filesBeside(): readonly string[] {
  const text = SECTION.slice(SECTION.indexOf("Most calls pass these, too"));
  return [...text.matchAll(/`([\w-]+\.ts)`/g)].map(([, file = ""]) => file);
}

async function ask(client: ClientHttp2Session): Promise<void> {
  const stream = client.request({
    ":method": "POST",
    ":path": SHOULD_RATE_LIMIT_PATH,
    "content-type": "application/grpc",
    te: "trailers",
  });
  stream.end(MESSAGE);
  stream.resume();
  await once(stream, "end");
}

// Functions without a name are mostly how the runner of the tests passes on what a module exports.
function isUsed({ functionName, ranges }: Profiler.FunctionCoverage): boolean {
  return functionName !== "" && (ranges[0]?.count ?? 0) > 0;
}

/** The path in src, or from the root if the file is a package's. */
function placeOf(url: string): string {
  const [before = "", path = ""] = url.split("/src/");
  const [folder] = /packages\/[\w-]+$/.exec(before) ?? [];
  return folder === undefined ? path : `${folder}/src/${path}`;
}

/** Files of src and of packages with a function that runs in every one of some calls, relative to src. */
async function filesThatRun(client: ClientHttp2Session): Promise<readonly string[]> {
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  for (let i = 0; i < CALLS_BEFORE; i++) await ask(client);
  let files: Set<string> | undefined;
  for (let i = 0; i < CALLS_COUNTED; i++) {
    await session.post("Profiler.takePreciseCoverage");
    await ask(client);
    const { result } = await session.post("Profiler.takePreciseCoverage");
    const ran = result.filter(({ functions }) => functions.some(isUsed)).map(({ url }) => placeOf(url));
    files = new Set(files === undefined ? ran : ran.filter((file) => files?.has(file)));
  }
  await session.post("Profiler.stopPreciseCoverage");
  session.disconnect();
  return [...(files ?? [])].filter((file) => /^(?!base\/).+\.ts$/.test(file)).toSorted();
}

const [ofMemory = [], ofRedis = []] = filesOfTables();
const ofBoth = ofMemory.filter((file) => !/^(?:stores\/memory|engine\/algorithms)\//.test(file));

describe("the files of a call in docs/architecture.md", () => {
  test.each([
    { store: "memory", env: {}, named: ofMemory, count: 26 },
    { store: "one Redis", env: { REDIS_URL: `127.0.0.1:${redis.port}` }, named: [...ofBoth, ...ofRedis], count: 36 },
  ])("are those that run with $store, and those of their types", async ({ env, named, count }) => {
    const app = await startTestApp(RULES, env);
    const client = connect(`http://127.0.0.1:${app.grpcPort}`);
    const ran = await filesThatRun(client);
    client.close();
    const beside = filesBeside();
    expect(named).toHaveLength(count);
    const code = named.filter((file) => file.endsWith(".ts") && !OF_TYPES.includes(basename(file)));
    expect(code.filter((file) => !ran.includes(file))).toEqual([]);
    const types = code.flatMap(typeFilesOf);
    expect(types.filter((file) => !named.includes(file) && !beside.includes(basename(file)))).toEqual([]);
    expect(ran.filter((file) => !named.includes(file) && !beside.includes(basename(file)))).toEqual([]);
  });

  test.each([
    { row: "both", files: ofBoth },
    { row: "memory", files: ofMemory },
    { row: "Redis", files: ofRedis },
  ])("declare the types to know of $row", ({ row, files }) => {
    const texts = files.map(textOf);
    const { said, types } = typesOf(row);
    expect(types).toHaveLength(said);
    expect(types.filter((type) => !texts.some((text) => declares(text, type)))).toEqual([]);
  });
});
