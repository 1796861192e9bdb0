// Which folder may import which, and which package stays behind which folder (docs/architecture.md shows the picture).

import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { filesOf, importedFile, importsOf, isOfFile } from "./imports.ts";

const SRC = resolve(import.meta.dirname, "../../src");
const PAGE = resolve(import.meta.dirname, "../../page");
const CLIENT = resolve(import.meta.dirname, "../../client/src");

/** Folder (or file) of src -> what it may import from src. A folder may always import itself. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  algorithms: ["core"],
  rules: ["core"],
  config: ["core", "rules", "rls/wire-reader.ts"],
  xds: ["core", "rules", "config", "rls/wire-reader.ts"],
  stores: ["core"],
  "stores/memory": ["core", "algorithms", "stores"],
  "stores/batching": ["core", "stores"],
  "stores/redis": ["core", "stores", "stores/batching", "stores/sharded"],
  "stores/postgres": ["core", "algorithms", "stores", "stores/batching"],
  "stores/sharded": ["core", "stores"],
  "stores/sync": ["core", "stores"],
  "stores/denials": ["core", "stores"],
  limiter: ["core", "rules", "stores"],
  rls: ["core", "limiter"],
  transport: ["core"],
  "transport/fast-lane": ["core", "transport", "transport/fast-lane/hpack"],
  "transport/relay": ["core", "transport"],
  "transport/fast-lane/hpack": ["transport/fast-lane/protocol.ts"],
  "telemetry/traces": ["core", "limiter", "settings", "telemetry"],
  telemetry: ["core", "limiter", "stores", "rules", "config", "settings"],
  admin: ["core", "telemetry", "rules", "config", "settings", "limiter/bucket-admin.ts"],
  settings: ["core"],
  mirror: ["core", "transport", "transport/relay", "telemetry"],
  simulate: ["core", "rules", "settings", "limiter", "rls", "stores", "stores/memory", "mirror", "telemetry"],
  cli: [
    "core",
    "limiter",
    "simulate",
    "rules",
    "config",
    "settings",
    "mirror",
    "telemetry",
    "xds/dump.ts",
    "transport/load-proto.ts",
    "transport/plain-struct.ts",
  ],
  app: ["*"],
  workers: ["core", "settings", "telemetry", "transport"],
  main: ["app", "cli", "core", "settings", "telemetry", "workers"],
};

/** Package -> where it may be imported. */
const PACKAGE_HOMES: Readonly<Record<string, readonly string[]>> = {
  ioredis: ["stores/redis"],
  pg: ["stores/postgres"],
  "@grpc/grpc-js": ["transport", "cli/ask.ts", "xds", "telemetry/traces"],
  "@grpc/proto-loader": ["transport", "xds"],
  "@grpc/reflection": ["transport"],
  "@bufbuild/protobuf": ["rls/json.ts", "transport/load-proto.ts"],
  yaml: ["config"],
  pino: ["telemetry/logger.ts"],
  "prom-client": ["telemetry"],
  "@opentelemetry/api": ["telemetry/traces"],
  "@opentelemetry/exporter-trace-otlp-grpc": ["telemetry/traces"],
  "@opentelemetry/exporter-trace-otlp-proto": ["telemetry/traces"],
  "@opentelemetry/resources": ["telemetry/traces"],
  "@opentelemetry/sdk-trace-base": ["telemetry/traces"],
  "hot-shots": ["telemetry/statsd.ts"],
  re2js: ["rules"],
  "temporal-polyfill": ["rules/calendar.ts"],
  "ipaddr.js": ["rules"],
  commander: ["cli"],
};

/** The most specific room of the table that holds the file. */
function roomOf(file: string): string {
  const withoutEnding = file.replace(/\.ts$/, "");
  const rooms = Object.keys(MAY_IMPORT).filter((room) => withoutEnding === room || file.startsWith(`${room}/`));
  return rooms.sort((a, b) => b.length - a.length)[0] ?? file;
}

function isAllowed(from: string, to: string): boolean {
  const allowed = MAY_IMPORT[roomOf(from)];
  if (allowed === undefined) return false;
  return allowed.includes("*") || roomOf(from) === roomOf(to) || allowed.includes(roomOf(to)) || allowed.includes(to);
}

describe("layers", () => {
  const files = filesOf(SRC);
  const imports = files.flatMap((file) => importsOf(SRC, file));

  test("every folder imports only what it may", () => {
    const wrong = imports
      .filter(isOfFile)
      .map((one) => ({ from: one.from, to: importedFile(SRC, one) }))
      .filter(({ from, to }) => !isAllowed(from, to))
      .map(({ from, to }) => `${from} imports ${to}`);
    expect(wrong).toEqual([]);
  });

  test("docs/architecture.md has a row for each folder and file of src, and for no other", () => {
    const page = readFileSync(resolve(SRC, "../docs/architecture.md"), "utf8");
    const [table = ""] = page.split("| folder | job | may import |\n")[1]?.split("\n\n") ?? [];
    const folders = [...table.matchAll(/^\| (.+?) \|/gm)].map(([, folder = ""]) => folder).join();
    const names = [...folders.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
    expect(names.filter((name) => !name.includes("/")).toSorted()).toEqual(readdirSync(SRC).toSorted());
  });

  test("every outside package stays behind its folder", () => {
    const wrong = imports
      .filter((one) => !isOfFile(one) && !one.to.startsWith("node:"))
      .filter(({ from, to }) => {
        const name = to
          .split("/")
          .slice(0, to.startsWith("@") ? 2 : 1)
          .join("/");
        return !(PACKAGE_HOMES[name] ?? []).some((home) => from === home || from.startsWith(`${home}/`));
      })
      .map(({ from, to }) => `${from} imports ${to}`);
    expect(wrong).toEqual([]);
  });

  test("the client stands alone: its own files, grpc-js, and nothing else", () => {
    const imported = filesOf(CLIENT).flatMap((file) => importsOf(CLIENT, file));
    const outside = imported.filter((one) => (isOfFile(one) ? importedFile(CLIENT, one).startsWith("..") : true));
    expect([...new Set(outside.map(({ to }) => to))]).toEqual(["@grpc/grpc-js"]);
  });

  test("the page stands alone: its own files, and of the service types only", () => {
    const names = readdirSync(PAGE).filter((file) => file.endsWith(".mjs"));
    const imported = names.flatMap((name) =>
      [...readFileSync(join(PAGE, name), "utf8").matchAll(/^(?:import|export) [^;]*?from "([^"]+)"|^import "/gm)].map(
        ([, to = ""]) => to,
      ),
    );
    expect(imported.length).toBeGreaterThan(10);
    expect(imported.filter((to) => !names.includes(to.replace(/^\.\//, "")))).toEqual([]);
  });

  test("only core/clock.ts reads the time of the machine", () => {
    const wrong = files.filter(
      (file) =>
        file !== "core/clock.ts" &&
        /Date\.now\(|performance\.now\(|hrtime|new Date\(\)/.test(readFileSync(join(SRC, file), "utf8")),
    );
    expect(wrong).toEqual([]);
  });
});
