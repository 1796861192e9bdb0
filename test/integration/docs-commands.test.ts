// The commands of docs/runtime-limits.md and the first calls of the README, as a reader runs them against `npm start`: all run, and print what is shown.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { addressOf } from "../support/limiters.ts";
import { runProgram } from "../support/run-program.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const textOf = (file: string) => readFileSync(resolve(ROOT, file), "utf8");
const PAGE = textOf("docs/runtime-limits.md");

/** The fenced blocks of the page that hold commands. */
const blocks = [...PAGE.matchAll(/^```\n([\s\S]*?)^```$/gm)].map(([, text = ""]) => text);
const listed =
  blocks
    .find((text) => text.startsWith("headgate limits set"))
    ?.trimEnd()
    .split("\n") ?? [];
const shown = blocks.filter((text) => text.startsWith("$ headgate"));

async function run(app: TestApp, line: string) {
  const words = [...line.replace(/ +#.*/, "").matchAll(/"([^"]*)"|(\S+)/g)].map(
    ([, quoted, word]) => quoted ?? word ?? "",
  );
  const server = ["--server", `127.0.0.1:${app.httpPort}`];
  const { out, err, exitCode } = await runProgram([...words.slice(1), ...server], { env: { ADMIN_TOKEN: TOKEN } });
  return { said: out + err, exitCode };
}

/** Numbers and times as `#`, columns as one blank. */
const shape = (text: string) =>
  text
    .replace(/[\d:.TZ-]*\d[\d:.TZ-]*/g, "#")
    .replace(/ +/g, " ")
    .trimEnd();

const TOKEN = /`ADMIN_TOKEN=(\S+) npm start`/.exec(PAGE)?.[1] ?? "";
const start = () => startTestApp({ "edge.yaml": textOf("deploy/rules/edge.yaml") }, { ADMIN_TOKEN: TOKEN });

test("every listed command runs against the bundled rules", async () => {
  const app = await start();
  expect(listed.length).toBeGreaterThan(5);
  for (const line of listed) {
    const { said, exitCode } = await run(app, line);
    // The rule of this key has no tiers, and the page says that the command needs some.
    expect([line, said, exitCode]).toEqual([
      line,
      expect.any(String),
      line.includes("# where the rule has tiers") ? 1 : 0,
    ]);
  }
});

test("a blocked caller looks as on the page", async () => {
  const app = await start();
  await Promise.all(Array.from({ length: 200 }, () => app.hit({ remote_address: "203.0.113.7" })));
  expect(shown).toHaveLength(2);
  for (const block of shown) {
    const [command = "", ...lines] = block.split("\n");
    const { said } = await run(app, command.slice(2));
    expect(shape(said)).toBe(shape(lines.join("\n")));
  }
});

test("the README's first calls pass, and its sixth login is refused, however slow the machine is", async () => {
  const app = await start();
  const lines = [...textOf("README.md").matchAll(/^npx headgate (ask .*?)(?: +#.*)?$/gm)].map(([, line = ""]) => line);
  const ends = [];
  for (const line of lines) {
    const { out } = await runProgram([...line.split(" "), "--server", addressOf(app)]);
    ends.push(out.trimEnd().split("\n").at(-1));
  }
  expect(ends).toEqual([expect.stringMatching(/^ {2}OK {2}per-address: 49 of 50 left/), "5 passed, 1 over limit"]);
});
