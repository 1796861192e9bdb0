// `headgate completion` in real shells: bash completes as the script says; zsh and fish, where they are installed, at least read theirs.

import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { buildProgram } from "../../../../src/tools/cli/program.ts";
import { RecordedTerminal } from "../../../support/recorded-terminal.ts";
import { runProgram } from "../../../support/run-program.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const folder = temporaryFolder("headgate-completion");
writeFileSync(join(folder, "a b.yaml"), "");
const { out: script } = await runProgram("completion bash");

/** What bash offers after each list of words, the last of which is being typed. */
function offered(typed: readonly (readonly string[])[]): readonly (readonly string[])[] {
  const quoted = typed.map((words) => words.map((word) => `'${word}'`).join(" "));
  const ask = `t() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _headgate; (IFS='|'; echo "\${COMPREPLY[*]}"); }`;
  const lines = [script, ask, "complete -p headgate", ...quoted.map((words) => `t ${words}`)];
  const { stdout, stderr } = spawnSync("bash", { input: lines.join("\n"), cwd: folder, encoding: "utf8" });
  expect(stderr).toBe("");
  const [registered, ...answers] = stdout.split("\n").slice(0, -1);
  expect(registered).toBe("complete -F _headgate headgate");
  return answers.map((line) => (line === "" ? [] : line.split("|")));
}

function pathsOf(
  command: Command,
  above: readonly string[] = [],
): { readonly at: readonly string[]; readonly command: Command }[] {
  const at = [...above, command.name()];
  return [{ at, command }, ...command.commands.flatMap((below) => pathsOf(below, at))];
}

describe("bash", () => {
  test("offers every command and every long option of the program", () => {
    const nothing = async () => undefined;
    const program = buildProgram({
      serve: nothing,
      checkStart: async () => [],
      version: "1",
      terminal: new RecordedTerminal(),
    });
    const all = pathsOf(program);
    const options = offered(all.map(({ at }) => [...at, "--"]));
    const words = offered(all.map(({ at }) => [...at, ""]));
    for (const [i, { at, command }] of all.entries()) {
      const flags = command.options.map(({ long }) => long);
      expect(options[i], at.join(" ")).toEqual(expect.arrayContaining([...flags, "--help"]));
      expect(words[i], at.join(" ")).toEqual(expect.arrayContaining(command.commands.map((below) => below.name())));
    }
  });

  test.each([
    { typed: ["headgate", "che"], says: ["check"] },
    { typed: ["headgate", "check", "--format", ""], says: ["text", "json", "github"] },
    { typed: ["headgate", "check", "-f", "j"], says: ["json"] },
    { typed: ["headgate", "check", "--format", "=", "g"], says: ["github"] },
    { typed: ["headgate", "completion", "z"], says: ["zsh"] },
    { typed: ["headgate", "check", "a"], says: ["a b.yaml"] },
    { typed: ["headgate", "explain", "--rules", "a"], says: ["a b.yaml"] },
    { typed: ["headgate", "explain", "--domain", "a"], says: [] },
    { typed: ["headgate", "limits", "import", "a"], says: ["a b.yaml"] },
  ])("completes $typed to $says", ({ typed, says }) => {
    expect(offered([typed])).toEqual([says]);
  });
});

const INSTALLED = ["bash", "zsh", "fish"].filter((shell) => spawnSync(shell, ["-c", ""]).error === undefined);
test.each(INSTALLED)("%s reads its script", async (shell) => {
  const { out: input } = await runProgram(`completion ${shell}`);
  const file = join(folder, shell);
  writeFileSync(file, input);
  expect(spawnSync(shell, ["-n", file], { encoding: "utf8" })).toMatchObject({ status: 0, stderr: "" });
});
