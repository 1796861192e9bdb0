// `headgate test`: options in, results out. What it does is in src/tools/simulate/cases.

import { Option } from "commander";
import { someText } from "./arguments.ts";
import type { ProgramCommand } from "./command.ts";
import type { Terminal } from "./terminal.ts";
import type { TestFlags } from "./test-output.ts";

/** How results are printed. */
const FORMATS: readonly TestFlags["format"][] = ["text", "junit", "github", "json"];

/** Adds the command. `untilStopped` resolves when `--watch` shall end; never unless given. */
export function addTest(program: ProgramCommand, terminal: Terminal, untilStopped?: () => Promise<void>): void {
  program
    .command("test")
    .summary("run test cases against rules")
    .description(
      "Runs files of cases: calls on a time line, each with its expected answer, decided by the service's own code in" +
        " virtual time. Exits 1 if any answer differs, 2 if rules or cases can't be used.",
    )
    .argument("<files...>", "files of cases, directories with them (*.yaml, *.yml), or - for standard input")
    .option("-r, --rules <path>", "test these rules, whatever the files say", someText("a path"))
    .addOption(new Option("-f, --format <format>", "output format").choices(FORMATS).default("text"))
    .option("--require-coverage", "exit 1 if any rule is reached by no case")
    .option("--watch", "run again whenever cases or rules change")
    .examples(`
  headgate test cases/
  headgate test --rules rules/ cases/edge.yaml --watch
  headgate test cases/ --format junit > results.xml
`)
    .action(async (paths: readonly string[], flags: TestFlags, command: ProgramCommand) => {
      if (flags.watch && paths.includes("-")) command.error("error: --watch reads files again, and - can be read once");
      const { testFiles } = await import("./test-files.ts");
      await testFiles(paths, flags, terminal, untilStopped);
    });
}
