// `headgate buckets peek|reset`: shows single buckets of a running service, or resets them.

import { durationWords } from "../../base/units.ts";
import { visible } from "../../base/visible.ts";
import type { BucketView, SnapshotView } from "../../operate/http/bucket-pages.ts";
import { askAdmin, askedDescriptor } from "./admin-call.ts";
import { DESCRIPTORS, descriptorParser, someText, type TypedDescriptor, unmetText } from "./arguments.ts";
import { asking, type ProgramCommand } from "./command.ts";
import { count, jsonText, paint, type Terminal } from "./terminal.ts";

interface BucketFlags {
  readonly domain: string;
  readonly server: string;
  readonly tokenFile?: string;
  readonly globalLimit?: true;
  readonly json?: true;
}

/** Adds the command and its subcommands. */
export function addBuckets(program: ProgramCommand, terminal: Terminal): void {
  const buckets = program
    .command("buckets")
    .summary("see what a caller has left, or reset it")
    .description("Shows what is left in the buckets that descriptors pay at a running service, or resets them.")
    .examples(
      `
  headgate buckets peek --domain edge tenant=acme
  headgate buckets peek --domain edge --token-file token plan=free,key=abc
  headgate buckets reset --domain edge --global-limit tenant=acme
`,
      "afterAll",
    );
  addWay(buckets, terminal, "peek", "see what is left, pay nothing");
  addWay(buckets, terminal, "reset", "fill the buckets up again");
}

function addWay(buckets: ProgramCommand, terminal: Terminal, way: "peek" | "reset", summary: string): void {
  asking(buckets, way, summary)
    .description(
      `${way === "peek" ? "Shows what is left in" : "Resets"} every bucket that a call with these descriptors would pay.` +
        " Exits 0 if there is one, 1 if no limit applies, 2 on an error." +
        " A token comes from ADMIN_TOKEN, ADMIN_TOKEN_FILE or --token-file.",
    )
    .argument("[descriptors...]", `${DESCRIPTORS}, \\xff the byte 0xff`, descriptorParser(terminal))
    .requiredOption("-d, --domain <name>", "domain of the calls", someText("a domain"))
    .option("--global-limit", "the domain's global limit too")
    .action((descriptors: readonly TypedDescriptor[] | undefined, flags: BucketFlags) =>
      askBuckets(way, descriptors ?? [], flags, terminal),
    );
}

interface BucketAnswer {
  readonly says: string;
  readonly buckets: readonly BucketView[];
}

async function askBuckets(
  way: "peek" | "reset",
  descriptors: readonly TypedDescriptor[],
  flags: BucketFlags,
  terminal: Terminal,
): Promise<void> {
  const question = {
    domain: flags.domain,
    descriptors: descriptors.map(askedDescriptor),
    global_limit: flags.globalLimit ?? false,
  };
  const answer = await askAdmin<BucketAnswer>(flags, `/buckets/${way}`, "buckets", terminal, question);
  if (answer === undefined) return;
  terminal.setExitCode(answer.buckets.length > 0 ? 0 : 1);
  terminal.out(flags.json ? jsonText(answer) : answerText(answer, descriptors, terminal));
}

function answerText({ says, buckets }: BucketAnswer, asked: readonly TypedDescriptor[], terminal: Terminal): string {
  let text = `${paint(terminal, "bold", visible(says))}\n`;
  for (const bucket of buckets) {
    text += `\n${visible(bucket.rule)}: ${visible(bucket.algorithm)} of ${bucket.burst}\n`;
    text += `  bucket  ${visible(bucket.bucket)}\n`;
    if ("remaining" in bucket) text += `  left    ${snapshotText(bucket)}\n`;
    else text += `  before  ${snapshotText(bucket.before)}\n  now     ${snapshotText(bucket.after)}\n`;
  }
  const unmet = [...asked.keys()].filter((at) => !buckets.some(({ descriptor }) => descriptor === at));
  return text + unmetText(unmet, asked);
}

function snapshotText({ remaining, wait_seconds: wait, reset_seconds: reset, live_holds: held }: SnapshotView): string {
  const waiting = wait > 0 ? `, passes again in ${durationWords(wait)}` : "";
  const holds = held === undefined ? "" : `, ${count(held, "live hold")}`;
  return `${remaining}${waiting}, ${reset > 0 ? `full again in ${durationWords(reset)}` : "full"}${holds}`;
}
