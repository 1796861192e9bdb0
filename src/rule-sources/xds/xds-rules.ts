// Rules from a control plane, with rule files beside them. The compiler judges each set; the last good one stays in force and is kept
// in a file (RULES_CACHE) for starts while the control plane is away.

import { createHash } from "node:crypto";
import type { Clock } from "../../engine/base/clock.ts";
import { ConfigError } from "../../engine/base/errors.ts";
import { waitAtMost } from "../../engine/base/wait-at-most.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { CompileOptions } from "../../engine/rules/compile.ts";
import { formatProblem } from "../../engine/rules/problems.ts";
import type { Problem } from "../../engine/rules/source.ts";
import { parseInThread } from "../files/parse-in-thread.ts";
import { type RuleFiles, readRuleFiles } from "../files/read-files.ts";
import { type ReloadLog, RuleSource, type RulesPart } from "../files/rule-source.ts";
import type { WatchedFiles } from "../files/watch.ts";
import type { ControlPlane } from "./ads-stream.ts";
import { type ClientStatus, XdsClient } from "./client.ts";
import { compileSet, type SetResult } from "./compile-set.ts";
import { type DiscoveryAnswer, RATE_LIMIT_TYPE } from "./discovery.ts";
import { CacheFile } from "./rules-cache.ts";
import type { SessionPauses } from "./session.ts";

interface XdsRulesOptions {
  readonly plane: ControlPlane;
  readonly pauses: SessionPauses;
  /** Options of the compiler; version and hash are set here. */
  readonly compile: Omit<CompileOptions, "version" | "hash">;
  /** Rule files that are compiled together with each set; undefined: none. */
  readonly files: WatchedFiles | undefined;
  /** Where the last good set is kept; undefined: nowhere. */
  readonly cacheFile: string | undefined;
  /** False: the cache file is only read. Of several workers that share the file only one writes it. */
  readonly writesCache: boolean;
  readonly clock: Clock;
  readonly log: ReloadLog;
  /** Called when something has changed that `xdsStatus` shows. */
  readonly changed: () => void;
}

/** The state of the connection and of the set. Times are microseconds since the epoch. */
export interface XdsStatus extends ClientStatus {
  readonly server: string;
  readonly node: string;
  /** Version of the set in force; undefined without one. */
  readonly version: string | undefined;
  /** When the control plane last sent the set in force; for a set from RULES_CACHE, when it was kept. */
  readonly heardAtUs: number | undefined;
  /** True while the set in force comes from RULES_CACHE and the control plane has not sent a good one. */
  readonly isKept: boolean;
  /** The refusal of the last set; undefined if it was accepted. */
  readonly lastRefusal: { readonly atUs: number; readonly version: string; readonly message: string } | undefined;
}

/** A set that compiled without errors. */
type GoodSet = Pick<DiscoveryAnswer, "version" | "resources" | "digest">;

/** How long `start` waits for the first set, so that a new process has rules before it gets calls. */
const FIRST_SET_MS_MAX = 5_000;

const NO_FILES: RuleFiles = { files: [], failures: [], hash: "" };
/** Most problems in a refusal that is sent. */
const REFUSAL_PROBLEMS_MAX = 20;

/** The source of rules that a control plane sends. */
export class XdsRules extends RuleSource {
  readonly #options: XdsRulesOptions;
  readonly #client: XdsClient;
  readonly #cache: CacheFile | undefined;
  /** Ends with the last task: sets and files are processed one after another. */
  #work: Promise<unknown> = Promise.resolve();
  #set: GoodSet | undefined;
  /** Domains of that set, one-byte. */
  #domains: readonly string[] = [];
  #heardAtUs: number | undefined;
  #isKept = false;
  #lastRefusal: XdsStatus["lastRefusal"];
  /** The last files without mistakes. */
  #files = NO_FILES;
  /** True while the current files are refused. */
  #hasBadFiles = false;
  #firstJudged: () => void = () => undefined;

  constructor(options: XdsRulesOptions) {
    const { clock, log, plane, pauses, cacheFile, changed } = options;
    super({ clock, log, origin: { server: plane.url } });
    this.#options = options;
    this.#cache = cacheFile === undefined ? undefined : new CacheFile(cacheFile, log);
    this.#client = new XdsClient({ plane, pauses, clock, log, changed, judge: (answer) => this.#queue(answer) });
  }

  /** Reads the files and the kept set, opens the stream, and without a kept set waits up to FIRST_SET_MS_MAX for the first one. */
  async start(): Promise<void> {
    await this.reload();
    await this.#useKept();
    const first = new Promise<void>((resolve) => {
      this.#firstJudged = resolve;
    });
    this.#client.start();
    if (this.#options.files !== undefined) this.watch(this.#options.files);
    if (this.#set !== undefined) return;
    await waitAtMost(FIRST_SET_MS_MAX, first);
  }

  /** Reads the rule files again. Never rejects. */
  async reload(): Promise<void> {
    const { files } = this.#options;
    if (files === undefined) return;
    await this.#inTurn("files", () => this.#readFiles(files));
  }

  xdsStatus(): XdsStatus {
    const { url, nodeId } = this.#options.plane;
    return {
      ...this.#client.status(),
      server: url,
      node: nodeId,
      version: this.#set?.version,
      heardAtUs: this.#heardAtUs,
      isKept: this.#isKept,
      lastRefusal: this.#lastRefusal,
    };
  }

  override close(): void {
    super.close();
    this.#client.close();
  }

  #inTurn<T>(part: RulesPart, work: () => Promise<T>): Promise<T | undefined> {
    const done = this.#work.then(work).catch((cause: unknown) => {
      this.fault(part, cause);
      return undefined;
    });
    this.#work = done;
    return done;
  }

  async #queue(answer: DiscoveryAnswer): Promise<string | undefined> {
    let refusal: string | undefined = "the set can't be judged: see the log of the rate limit service";
    await this.#inTurn("set", async () => {
      refusal = await this.#judge(answer);
    });
    this.#firstJudged();
    return refusal;
  }

  async #judge(answer: DiscoveryAnswer): Promise<string | undefined> {
    if (answer.fault !== undefined) return this.#refuse(answer.version, [answer.fault], []);
    // An answer without resources takes all rules away, so it has to be one about rules.
    const typeUrls = [answer.typeUrl || RATE_LIMIT_TYPE, ...answer.resources.map(({ typeUrl }) => typeUrl)];
    const foreign = typeUrls.find((typeUrl) => typeUrl !== RATE_LIMIT_TYPE);
    if (foreign !== undefined) {
      return this.#refuse(answer.version, [`expected resources of type ${RATE_LIMIT_TYPE}, got ${foreign}`], []);
    }
    const result = await this.#compile(answer, this.#files);
    if (result.ruleSet === undefined) return this.#refuse(answer.version, errorsOf(result.problems), result.problems);
    const isAnotherSet = this.#set?.digest !== answer.digest;
    this.#set = answer;
    this.#heardAtUs = this.#options.clock.nowUs();
    this.#isKept = false;
    this.#lastRefusal = undefined;
    if (isAnotherSet) this.#warnOfLoss(result.domains);
    this.#domains = result.domains;
    this.accept("set", result.ruleSet);
    // Not awaited, so that a hanging disk delays neither this set nor the next.
    if (this.#options.writesCache) void this.#cache?.write(answer, this.#heardAtUs);
    // Files may have been refused only because of the set before.
    if (isAnotherSet && this.#hasBadFiles) void this.reload();
    return undefined;
  }

  #refuse(version: string, lines: readonly string[], problems: readonly Problem[]): string {
    const count = lines.length === 1 ? "1 error" : `${lines.length} errors`;
    const message = `the control plane's set, version ${JSON.stringify(version)}, can't be used: ${count}`;
    this.refuse("set", new ConfigError("CONFIG_RULES", message, lines), problems);
    const told = lines.slice(0, REFUSAL_PROBLEMS_MAX).join("\n");
    this.#lastRefusal = { atUs: this.#options.clock.nowUs(), version, message: told };
    return told;
  }

  async #compile(set: GoodSet | undefined, files: RuleFiles): Promise<SetResult> {
    const resources = set?.resources ?? [];
    const sources = await parseInThread(resources.map(({ value }) => ({ name: "", bytes: value, isResource: true })));
    return compileSet(sources, await parseInThread(files.files), {
      ...this.#options.compile,
      version: this.nextVersion,
      hash: createHash("sha256").update(`${set?.digest}\n${files.hash}`).digest("hex"),
    });
  }

  async #readFiles({ directory, choice }: WatchedFiles): Promise<void> {
    const files = await readRuleFiles(directory, choice);
    this.seenHash = files.hash;
    const result = await this.#compile(this.#set, files);
    const failures = files.failures.map(({ name, message }) => `${name}: ${message}`);
    const faults = [...failures, ...result.faults.map(formatProblem)];
    this.#hasBadFiles = faults.length > 0;
    if (this.#hasBadFiles) {
      const message = `the rule files in ${directory} can't stand beside the control plane's rules`;
      this.refuse("files", new ConfigError("CONFIG_RULES", message, faults), result.faults);
      return;
    }
    this.#files = files;
    if (this.#set === undefined || result.ruleSet === undefined) this.forgetError("files");
    else this.accept("files", result.ruleSet);
  }

  async #useKept(): Promise<void> {
    const kept = await this.#cache?.read();
    if (kept === undefined) return;
    await this.#inTurn("set", async () => {
      const { ruleSet, problems, domains } = await this.#compile(kept.set, this.#files);
      if (ruleSet === undefined) {
        const message = "the rules that RULES_CACHE has kept can't be used";
        this.refuse("set", new ConfigError("CONFIG_RULES", message, errorsOf(problems)), problems);
        return;
      }
      this.#set = kept.set;
      this.#domains = domains;
      this.#heardAtUs = kept.savedAtUs;
      this.#isKept = true;
      this.accept("set", ruleSet);
    });
  }

  // A control plane that sends only what has changed (an incremental server) removes all other domains by mistake.
  #warnOfLoss(domains: readonly string[]): void {
    if (domains.length !== 1 || this.#domains.length < 2) return;
    const lost = this.#domains.filter((domain) => !domains.includes(domain)).map(textOf);
    this.#options.log.warn(
      { server: this.#options.plane.url, lost: lost.slice(0, REFUSAL_PROBLEMS_MAX), count: lost.length },
      "all domains but one are gone from the control plane's set: it must send the whole set each time, not what has changed",
    );
  }
}

function errorsOf(problems: readonly Problem[]): string[] {
  return problems.filter(({ severity }) => severity === "error").map(formatProblem);
}
