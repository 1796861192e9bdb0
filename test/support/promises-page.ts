// Writes docs/promises.md from marks in the tests, so that no promise can be without its test (test/tidy/promises.test.ts). A mark is a comment
// right above a test or its block: `// Promise(holds): A hold that nobody settles ends after its ttl.` Marks that say the same are one promise.

import { readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { testSources } from "./own-packages.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** Themes of marks and their headings, in the page's order. */
export const THEMES: Readonly<Record<string, string>> = {
  limits: "Limits",
  quota: "Quota handed to Envoy",
  calls: "Several limits at once",
  tiers: "Priorities and tiers",
  sharing: "Guaranteed shares",
  calendar: "Calendar windows",
  holds: "Holds",
  hot: "Hot keys",
  outages: "When the store is away",
  redis: "Redis, Sentinel and Cluster",
  postgres: "PostgreSQL",
  restarts: "Counts over restarts",
  answers: "Answers",
  clients: "Clients",
  rules: "Rule files",
  xds: "Rules from a control plane",
  grpc: "The gRPC port",
  input: "Hostile input and secrets",
  turns: "No caller delays others",
  operators: "Operators",
  traces: "Traces",
  processes: "Processes",
  compatibility: "In place of envoyproxy/ratelimit",
  llm: "Language models",
  gateway: "Envoy Gateway",
  mirror: "The mirror",
  simulations: "Simulations",
};

/** A mark, and the line of code below it. */
export interface Mark {
  /** From the root of the repository. */
  readonly file: string;
  readonly theme: string;
  readonly sentence: string;
  readonly below: string;
}

/** All marks, by file and line. What looks like a mark and is none has theme "". */
export function promiseMarks(): readonly Mark[] {
  return testSources().toSorted().flatMap(marksOf);
}

function marksOf(file: string): readonly Mark[] {
  const lines = readFileSync(join(ROOT, file), "utf8").split("\n");
  return lines.flatMap((line, index) => {
    if (!/^\s*\/\/ *promises? *[(:]/i.test(line)) return [];
    const [, theme = "", sentence = line] = /^\s*\/\/ Promise\((\w+)\): (\S.*)$/.exec(line) ?? [];
    const below = lines.slice(index).find((next) => !/^\s*\/\//.test(next)) ?? "";
    return [{ file, theme, sentence, below: below.trim() }];
  });
}

const INTRODUCTION = `# Promises

<!-- Made from marks in the tests; \`npx vitest run --project unit test/tidy/promises -u\` regenerates it. -->

What callers and operators may rely on. After each promise: the tests that fail when it stops being true. *Explored*: in every order of so many
events. *Checked*: by the recorded answers of real servers. *Random*: by cases drawn at random. [How it is proven](proof.md) says more.
`;

/** The whole page, Markdown. */
export function promisesPage(): string {
  const marks = promiseMarks();
  let page = INTRODUCTION;
  for (const [theme, heading] of Object.entries(THEMES)) {
    page += `\n## ${heading}\n\n`;
    const filesOf = new Map<string, Set<string>>();
    for (const mark of marks) {
      if (mark.theme === theme) filesOf.set(mark.sentence, (filesOf.get(mark.sentence) ?? new Set()).add(mark.file));
    }
    for (const [sentence, files] of filesOf) {
      const links = [...files].map((file) => `[${basename(file).replace(/\..*/, "")}](../${file})${wayOf(file)}`);
      page += `- ${sentence} (${links.join(", ")})\n`;
    }
  }
  return page;
}

/** How a file of tests looks for what is wrong, if not by examples. */
function wayOf(file: string): string {
  if (file.startsWith("test/explore/")) return " *explored*";
  if (file.startsWith("test/linearizable/")) return " *checked*";
  return /\bfc\.(?:assert|asyncProperty|property)\(/.test(readFileSync(join(ROOT, file), "utf8")) ? " *random*" : "";
}
