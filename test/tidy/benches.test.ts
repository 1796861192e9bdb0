// Benches are plain JavaScript that nobody compiles: what they import from the built service must be there, or they stop running unseen.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const STATIC = /import\s*\{([^}]*)\}\s*from\s*"([^"]+)"/g;
const LOADED = /const\s*\{([^}]*)\}\s*=\s*await\s+(?:load|loadDist)\("([^"]+)"\)/g;

/** The file that a bench imports: sources in place of what is built of them. */
function importedFile(bench: string, path: string, isLoaded: boolean): string {
  const file = isLoaded ? join(ROOT, "dist", path) : resolve(dirname(bench), path);
  // What is built of the sources in a folder lies in its dist.
  const [, folder, name] = /^((?:packages\/[\w-]+\/)?)dist\/(.*)\.js$/.exec(relative(ROOT, file)) ?? [];
  return name === undefined ? file : join(ROOT, `${folder}src`, `${name}.ts`);
}

/** Names that the text of a bench imports from other files and that are not exported there, each with its place. */
function missingNames(bench: string, text: string): string[] {
  const imports = [
    ...[...text.matchAll(STATIC)].map(([, names = "", path = ""]) => ({ names, path, isLoaded: false })),
    ...[...text.matchAll(LOADED)].map(([, names = "", path = ""]) => ({ names, path, isLoaded: true })),
  ];
  return imports
    .filter(({ path, isLoaded }) => isLoaded || path.startsWith("."))
    .flatMap(({ names, path, isLoaded }) => {
      const file = importedFile(bench, path, isLoaded);
      const exported = existsSync(file) ? readFileSync(file, "utf8") : "";
      return names
        .split(",")
        .map((name) => name.trim().split(/\s+as\s+|:/)[0] ?? "")
        .filter((name) => name !== "" && !new RegExp(`^export [^;=]*\\b${name}\\b`, "m").test(exported))
        .map((name) => `${name} of ${path}`);
    });
}

test("benches import only what is exported", () => {
  const benches = readdirSync(join(ROOT, "bench"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".mjs"))
    .map((file) => join(ROOT, "bench", file));
  expect(benches.flatMap((bench) => missingNames(bench, readFileSync(bench, "utf8")))).toEqual([]);
});

test("a name that is not exported is found", () => {
  const bench = join(ROOT, "bench/store/any.mjs");
  const text =
    'import { Take, Gone } from "../../dist/engine/domain/take.js";\nconst { Lost } = await load("none.js");\n';
  expect(missingNames(bench, text)).toEqual(["Gone of ../../dist/engine/domain/take.js", "Lost of none.js"]);
});
