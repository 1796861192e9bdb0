// Which folder may import which, and which package stays behind which folder (docs/architecture.md shows the picture).

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { PACKAGES } from "../support/own-packages.ts";
import { filesOf, importedFile, importsOf, isOfFile } from "./imports.ts";

const SRC = resolve(import.meta.dirname, "../../src");
const UNIT_TESTS = resolve(import.meta.dirname, "../unit");
const PAGE = resolve(import.meta.dirname, "../../page");

/** Folder (or file) of src -> what it may import from src. A folder may always import itself. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  base: [],
  settings: ["base", "engine/domain"],
  "engine/domain": ["base"],
  "engine/algorithms": ["base", "engine/domain"],
  "engine/rules": ["base", "engine/domain"],
  "engine/runtime": ["base", "engine/domain"],
  "rule-sources/files": ["base", "engine/domain", "engine/rules"],
  "rule-sources/xds": ["base", "engine/domain", "engine/rules", "rule-sources/files"],
  "rule-sources/runtime": ["base", "engine/runtime", "rule-sources/files", "stores"],
  stores: ["base", "engine/domain", "engine/runtime"],
  "stores/memory": [
    "base",
    "engine/domain",
    "engine/algorithms",
    "engine/runtime",
    "engine/counters/counter-settlement.ts",
    "stores",
  ],
  "stores/batching": ["base", "settings/store-address.ts", "engine/domain", "stores"],
  "stores/redis": ["base", "settings/store-address.ts", "engine/domain", "stores", "stores/batching", "stores/sharded"],
  "stores/postgres": [
    "base",
    "settings/store-address.ts",
    "engine/domain",
    "engine/algorithms",
    "engine/counters/counter-settlement.ts",
    "stores",
    "stores/batching",
  ],
  "stores/sharded": ["base", "engine/domain"],
  "stores/sync": ["base", "engine/domain", "stores/last-answer.ts"],
  "stores/counters": ["base", "engine/domain"],
  "stores/denials": ["base", "engine/domain", "stores/last-answer.ts"],
  "engine/counters": ["base", "engine/domain", "engine/algorithms", "engine/limiter"],
  "engine/limiter": ["base", "engine/domain", "engine/rules", "engine/runtime"],
  grpc: ["base", "engine/domain"],
  "grpc/rls": ["grpc", "base", "settings/header-dialects.ts", "engine/domain", "engine/limiter"],
  "grpc/transport": ["grpc", "base", "engine/domain"],
  operate: [],
  quota: ["base", "engine/domain", "engine/limiter", "engine/rules", "grpc", "operate/condition.ts"],
  "operate/telemetry/traces": ["grpc", "base", "engine/domain", "engine/limiter", "settings", "operate/telemetry"],
  "operate/telemetry": [
    "operate/condition.ts",
    "grpc",
    "base",
    "engine/domain",
    "engine/limiter",
    "stores",
    "engine/rules",
    "rule-sources/files",
    "settings",
  ],
  "operate/http": [
    "grpc",
    "operate",
    "base",
    "engine/domain",
    "operate/telemetry",
    "engine/rules",
    "rule-sources/files",
    "rule-sources/xds",
    "settings",
    "engine/limiter/bucket-admin.ts",
    "engine/runtime/runtime-limit.ts",
  ],
  "tools/mirror": [
    "base",
    "engine/domain",
    "grpc",
    "grpc/transport",
    "operate/telemetry",
    "operate/http/cross-site.ts",
    "operate/http/page-server.ts",
  ],
  "tools/simulate": [
    "grpc",
    "base",
    "engine/domain",
    "engine/rules",
    "settings",
    "engine/limiter",
    "grpc/rls",
    "engine/counters/counters.ts",
    "stores",
    "stores/counters",
    "stores/memory",
    "tools/mirror",
    "operate/telemetry",
    "engine/runtime",
    "operate/http/read-asked-limit.ts",
  ],
  "tools/cli": [
    "base",
    "engine/domain",
    "engine/limiter",
    "tools/simulate",
    "engine/rules",
    "rule-sources/files",
    "settings",
    "tools/mirror",
    "operate/telemetry",
    "rule-sources/xds/dump.ts",
    "grpc/transport/load-proto.ts",
    "grpc/transport/service-definitions.ts",
    "operate/http/join-conditions.ts",
    "operate/http/read-asked-limit.ts",
    "operate/http/read-questions.ts",
    // Types of the answers that it prints.
    "operate/http/bucket-pages.ts",
    "operate/http/limit-pages.ts",
  ],
  "process/app": ["*"],
  "process/quick-start": [],
  "process/say-listening.ts": ["operate/telemetry", "process/app/page-addresses.ts", "settings"],
  "process/open-log.ts": ["base", "operate/telemetry", "settings"],
  main: [
    "process/app",
    "process/open-log.ts",
    "process/quick-start",
    "tools/cli",
    "base",
    "engine/domain",
    "settings",
    "operate/telemetry",
  ],
};

/** Package -> where it may be imported. */
const PACKAGE_HOMES: Readonly<Record<string, readonly string[]>> = {
  ioredis: ["stores/redis"],
  pg: ["stores/postgres"],
  "@grpc/grpc-js": ["grpc/transport", "tools/cli/ask.ts", "rule-sources/xds", "operate/telemetry/traces"],
  "@grpc/proto-loader": ["grpc/transport/service-definitions.ts"],
  "@bufbuild/protobuf": ["grpc/rls/json.ts", "grpc/transport/load-proto.ts", "grpc/transport/reflection.ts"],
  yaml: ["rule-sources/files"],
  pino: ["operate/telemetry/logger.ts"],
  "prom-client": ["operate/telemetry"],
  "@opentelemetry/api": ["operate/telemetry/traces"],
  "@opentelemetry/exporter-trace-otlp-grpc": ["operate/telemetry/traces"],
  "@opentelemetry/exporter-trace-otlp-proto": ["operate/telemetry/traces"],
  "@opentelemetry/resources": ["operate/telemetry/traces"],
  "@opentelemetry/sdk-trace-base": ["operate/telemetry/traces"],
  "hot-shots": ["operate/telemetry/statsd.ts"],
  re2js: ["engine/rules"],
  "temporal-polyfill": ["engine/rules/calendar.ts"],
  commander: ["tools/cli"],
  // Packages of this repository.
  "#fast-lane": ["grpc/transport/fast-lane.ts"],
  "#verify": ["tools/cli/verify.ts"],
};

/** Package of this repository -> what it may import besides its own files. */
const PACKAGE_IMPORTS: Readonly<Record<string, readonly string[]>> = {
  "packages/client": ["@grpc/grpc-js", "node:async_hooks", "node:net"],
  "packages/fast-lane": ["node:net", "node:tls"],
  // Neutral: it shares nothing with the service that it judges.
  "packages/verify": [
    "@grpc/grpc-js",
    "@grpc/proto-loader",
    "node:child_process",
    "node:fs",
    "node:timers/promises",
    "node:url",
    "yaml",
  ],
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

  test("docs/architecture.md has rows for each room of src, and for no other", () => {
    const page = readFileSync(resolve(SRC, "../docs/architecture.md"), "utf8");
    const [table = ""] = page.split("| folder | job |\n")[1]?.split("\n\n") ?? [];
    const folders = [...table.matchAll(/^\| (.+?) \|/gm)].map(([, folder = ""]) => folder).join();
    const names = [...folders.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
    const rooms = names.map((name) => name.split("/")[0] ?? "");
    expect([...new Set(rooms)].toSorted()).toEqual(readdirSync(SRC).toSorted());
    expect(names.filter((name) => !existsSync(join(SRC, name)))).toEqual([]);
  });

  test("docs/architecture.md says of each file of src what to open it for", () => {
    const page = readFileSync(resolve(SRC, "../docs/architecture.md"), "utf8");
    const [index = ""] = page.split("## To change something\n")[1]?.split("### Outside src") ?? [];
    const named = [...index.matchAll(/`(?:[\w-]+\/)*([\w.-]+\.ts)`/g)].map(([, name = ""]) => name);
    const left = new Map<string, number>();
    for (const name of named) left.set(name, (left.get(name) ?? 0) + 1);
    const missing = files.filter((file) => {
      const count = left.get(basename(file)) ?? 0;
      left.set(basename(file), count - 1);
      return count === 0;
    });
    expect(missing).toEqual([]);
  });

  test("test/unit mirrors src by folder: a test named after a file lies where that file does", () => {
    const outside = ["bench", "ci", "deploy", "page", "support"];
    const wrong = filesOf(UNIT_TESTS).filter((file) => {
      const folder = dirname(file);
      if (outside.includes(folder)) return false;
      const tested = files.filter((one) => basename(one) === basename(file).replace(".test.ts", ".ts"));
      return !existsSync(join(SRC, folder)) || (tested.length > 0 && !tested.includes(file.replace(".test.ts", ".ts")));
    });
    expect(wrong).toEqual([]);
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

  test.each(PACKAGES)(
    "%s stands alone: it imports its own files and what is listed, and needs no other package",
    (name) => {
      const folder = resolve(SRC, "..", name, "src");
      const imported = filesOf(folder).flatMap((file) => importsOf(folder, file));
      const outside = imported.filter((one) => (isOfFile(one) ? importedFile(folder, one).startsWith("..") : true));
      expect([...new Set(outside.map(({ to }) => to))].toSorted()).toEqual(PACKAGE_IMPORTS[name]);
      const { dependencies = {} } = JSON.parse(readFileSync(resolve(folder, "../package.json"), "utf8"));
      expect(Object.keys(dependencies)).toEqual(PACKAGE_IMPORTS[name]?.filter((to) => !to.startsWith("node:")));
    },
  );

  test("no file of src names a file of a package: it imports packages by their doors", () => {
    const wrong = imports.filter((one) => isOfFile(one) && importedFile(SRC, one).startsWith(".."));
    expect(wrong).toEqual([]);
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

  test("only base/clock.ts reads the time of the machine", () => {
    const wrong = files.filter(
      (file) =>
        file !== "base/clock.ts" &&
        /Date\.now\(|performance\.now\(|hrtime|new Date\(\)/.test(readFileSync(join(SRC, file), "utf8")),
    );
    expect(wrong).toEqual([]);
  });
});
