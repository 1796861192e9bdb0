// The limits that docs/from-limitador.md shows: Headgate's rules hold each of Limitador's, with its amount in its window.

import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { testFiles } from "../../../../src/tools/cli/test-files.ts";
import { RecordedTerminal } from "../../../support/recorded-terminal.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

interface Limit {
  readonly max_value: number;
  readonly seconds: number;
  readonly conditions: readonly string[];
  readonly variables: readonly string[];
}

const page = readFileSync(resolve(import.meta.dirname, "../../../../docs/from-limitador.md"), "utf8");
const [limits = "", rules = ""] = [...page.matchAll(/^```yaml\n(.*?)^```/gms)].map(([, text = ""]) => text);

test.each((parse(limits) as Limit[]).map((limit) => [JSON.stringify(limit), limit] as const))(
  "the rules hold %s",
  async (_, { max_value: most, seconds, conditions, variables }) => {
    const fixed = conditions.map((one) => one.replace(/^(\w+) == '(\w+)'$/, "$1=$2"));
    const call = [...fixed, ...variables.map((name) => `${name}=a`)].join(",") || "unlimited=otherwise";
    const other = [...fixed, ...variables.map((name) => `${name}=b`)].join(",");
    const steps = [
      { call, times: most, expect: "OK" },
      { call, expect: "OVER_LIMIT" },
      ...(variables.length === 0 ? [] : [{ call: other, expect: "OK" }]),
      { after: `${seconds - 0.001}s`, call, expect: "OVER_LIMIT" },
      { after: "1ms", call, times: most, expect: "OK" },
    ];
    const file = join(temporaryFolder("limitador"), "cases.yaml");
    writeFileSync(file, stringify({ rules: parse(rules), cases: [{ name: "as in Limitador", steps }] }));
    const terminal = new RecordedTerminal();
    await testFiles([file], { format: "text" }, terminal);
    expect(terminal.outText).toContain("1 of 1 case passed");
  },
);
