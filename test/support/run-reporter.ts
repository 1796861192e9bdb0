// What is printed at the end of a run after Vitest's own report: a command for each test that failed, and the ten slowest files.

import type { Reporter, TestCase, TestModule } from "vitest/node";

const SLOWEST = 10;

export default class RunReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const again = modules.flatMap(commandsFor);
    if (again.length > 0) print("To run again what failed:", again);
    const slowest = modules
      .map((module) => ({ file: module.relativeModuleId, ms: timeOf(module) }))
      .sort((a, b) => b.ms - a.ms)
      .slice(0, SLOWEST);
    if (modules.length > SLOWEST)
      print(
        "The ten slowest files:",
        slowest.map(({ file, ms }) => `${(ms / 1_000).toFixed(1).padStart(6)} s  ${file}`),
      );
  }
}

function commandsFor(module: TestModule): readonly string[] {
  const run = `npx vitest run --project ${module.project.name} ${module.relativeModuleId}`;
  const failed = [...module.children.allTests("failed")];
  if (failed.length === 0) return module.ok() ? [] : [run];
  return failed.map((test) => `${seedOf(test)}${run} -t ${quoted(test)}`);
}

/** The seed that a generated test has failed with, for TEST_SEED. */
function seedOf(test: TestCase): string {
  const texts = test.result().errors?.map(({ message }) => message) ?? [];
  const seed = /\{ seed: (-?\d+)/.exec(texts.join("\n"))?.[1];
  return seed === undefined ? "" : `TEST_SEED=${seed} `;
}

/** The test's name as a pattern, quoted for a shell. */
function quoted(test: TestCase): string {
  const pattern = test.fullName.replaceAll(" > ", " ").replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return `'${pattern.replaceAll("'", `'\\''`)}'`;
}

function timeOf(module: TestModule): number {
  const { environmentSetupDuration, prepareDuration, collectDuration, setupDuration, duration } = module.diagnostic();
  return environmentSetupDuration + prepareDuration + collectDuration + setupDuration + duration;
}

function print(title: string, lines: readonly string[]): void {
  process.stdout.write(`\n${title}\n${lines.map((line) => `  ${line}\n`).join("")}`);
}
