// Rules from a control plane, together with rule files. The state machine (session.ts) says when to open a stream, what
// to send and which set to judge; the compiler judges each set. The last good one stays in force and is kept in a file
// (RULES_CACHE) for starts while the control plane is away.

import { createHash } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { ConfigError } from "../../base/errors.ts";
import { LatestRun } from "../../base/latest-run.ts";
import type { Log } from "../../base/log.ts";
import { runInTurns } from "../../base/long-work.ts";
import { errorMessage } from "../../base/thrown.ts";
import { waitAtMost } from "../../base/wait-at-most.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { CompileOptions } from "../../engine/rules/compile.ts";
import { formatProblem } from "../../engine/rules/problems.ts";
import type { Problem } from "../../engine/rules/source.ts";
import { parseInThread } from "../files/parse-in-thread.ts";
import { type RuleFiles, readRuleFiles } from "../files/read-files.ts";
import { RuleSource, type RulesPart } from "../files/rule-source.ts";
import type { WatchedFiles } from "../files/watch.ts";
import { AdsStream, type ControlPlane } from "./ads-stream.ts";
import { compileSet, type SetResult } from "./compile-set.ts";
import { type DiscoveryAnswer, RATE_LIMIT_TYPE, readDiscoveryAnswer } from "./discovery.ts";
import { CacheFile } from "./rules-cache.ts";
import { type SessionPauses, XdsSession } from "./session.ts";

interface XdsRulesOptions {
  readonly plane: ControlPlane;
  readonly pauses: SessionPauses;
  /** Options of the compiler; version and hash are set here. */
  readonly compile: Omit<CompileOptions, "version" | "hash">;
  /** Rule files that are compiled together with each set; undefined: none. */
  readonly files: WatchedFiles | undefined;
  /** Where the last good set is kept; undefined: nowhere. */
  readonly cacheFile: string | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** Called when something has changed that `xdsStatus` shows. */
  readonly changed: () => void;
}

/** The state of the connection and of the set. Times are microseconds since the epoch. */
export type XdsStatus = ReturnType<XdsRules["xdsStatus"]>;

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
  readonly #session: XdsSession<DiscoveryAnswer>;
  #stream: AdsStream | undefined;
  #timer: NodeJS.Timeout | undefined;
  /**
   * Reads messages while calls are answered. The server expects an answer to its last message only, so older ones are
   * dropped.
   */
  readonly #reads = new LatestRun<{ stream: number; bytes: Buffer }, void>((message) => this.#read(message));
  /** Number of the last stream. */
  #streams = 0;
  #answers = 0;
  /** The last reason for an end that was logged. */
  #toldEnd: string | undefined;
  readonly #cache: CacheFile | undefined;
  /** Ends with the last task: sets and files are processed one after another. */
  #work: Promise<unknown> = Promise.resolve();
  #set: GoodSet | undefined;
  /** Domains of that set, one-byte. */
  #domains: readonly string[] = [];
  #heardAtUs: number | undefined;
  #isKept = false;
  #lastRefusal: { readonly atUs: number; readonly version: string; readonly message: string } | undefined;
  /** The last files without mistakes. */
  #files = NO_FILES;
  /** True while the current files are refused. */
  #hasBadFiles = false;
  #firstJudged: () => void = () => undefined;

  constructor(options: XdsRulesOptions) {
    const { clock, log, plane, pauses, cacheFile } = options;
    super({ clock, log, origin: { server: plane.url } });
    this.#options = options;
    this.#cache = cacheFile === undefined ? undefined : new CacheFile(cacheFile, log);
    this.#session = new XdsSession(
      {
        open: (stream) => this.#open(stream),
        close: () => this.#stream?.close(),
        send: (request) => this.#stream?.send(request),
        judge: (answer) => void this.#queue(answer),
      },
      pauses,
      Math.random,
    );
  }

  /**
   * Reads the files and the kept set, opens the stream, and without a kept set waits up to FIRST_SET_MS_MAX for the
   * first one.
   */
  async start(): Promise<void> {
    await this.load();
    const first = new Promise<void>((resolve) => {
      this.#firstJudged = resolve;
    });
    this.#tell((nowMs) => this.#session.start(nowMs));
    if (this.#options.files !== undefined) this.watch(this.#options.files);
    if (this.#set !== undefined) return;
    await waitAtMost(FIRST_SET_MS_MAX, first);
  }

  /** Reads the files and the kept set, and asks nobody. Never rejects. */
  async load(): Promise<void> {
    await this.reload();
    await this.#useKept();
  }

  /** Reads the rule files again. Never rejects. */
  async reload(): Promise<void> {
    const { files } = this.#options;
    if (files === undefined) return;
    await this.#inTurn("files", () => this.#readFiles(files));
  }

  xdsStatus() {
    const { url, nodeId } = this.#options.plane;
    return {
      /** The state of the stream; how many were opened, and what came on them. */
      state: this.#session.state,
      streams: this.#streams,
      answers: this.#answers,
      /** Sets refused so far. */
      refusals: this.#session.refusals,
      /** Why the last stream ended; undefined if none has. */
      lastEnd: this.#session.lastEnd,
      server: url,
      node: nodeId,
      /** Version of the set in force; undefined without one. */
      version: this.#set?.version,
      /** When the control plane last sent the set in force; for a set from RULES_CACHE, when it was kept. */
      heardAtUs: this.#heardAtUs,
      /** True while the set in force comes from RULES_CACHE and the control plane has not sent a good one. */
      isKept: this.#isKept,
      /** The refusal of the last set; undefined if it was accepted. */
      lastRefusal: this.#lastRefusal,
    };
  }

  override close(): void {
    super.close();
    this.#tell(() => this.#session.stop());
    clearTimeout(this.#timer);
  }

  /** Tells the session of an event. */
  #tell(event: (nowMs: number) => void): void {
    const before = this.#session.state;
    event(this.#nowMs());
    this.#setTimer();
    this.#logState(before, this.#session.state);
    this.#options.changed();
  }

  #open(stream: number): void {
    this.#streams = stream;
    this.#stream = new AdsStream(this.#options.plane, {
      connected: () => this.#tell(() => this.#session.connected(stream)),
      message: (bytes) => void this.#reads.run({ stream, bytes }),
      ended: (why) => this.#tell((nowMs) => this.#session.ended(stream, why, nowMs)),
    });
  }

  async #read({ stream, bytes }: { readonly stream: number; readonly bytes: Buffer }): Promise<void> {
    let answer: DiscoveryAnswer;
    try {
      answer = await runInTurns(readDiscoveryAnswer(bytes, this.#options.plane.bounds));
    } catch (cause) {
      // Without a nonce the answer can't be refused, so the stream is replaced.
      if (stream === this.#streams) this.#stream?.close();
      const why = `invalid message from the control plane: ${errorMessage(cause)}`;
      this.#tell((nowMs) => this.#session.ended(stream, why, nowMs));
      return;
    }
    this.#answers++;
    this.#tell((nowMs) => this.#session.answered(stream, answer, nowMs));
  }

  #logState(before: XdsSession<never>["state"], after: XdsSession<never>["state"]): void {
    const { plane, log } = this.#options;
    const fields = { server: plane.url, node: plane.nodeId };
    if (after !== "not connected") {
      this.#toldEnd = undefined;
      if (before !== after) log.info(fields, `the control plane: ${after}`);
      return;
    }
    // Each reason is logged once, however many streams end with it.
    const { lastEnd } = this.#session;
    if (lastEnd === undefined || (lastEnd === this.#toldEnd && before === after)) return;
    this.#toldEnd = lastEnd;
    log.warn({ ...fields, why: lastEnd }, "the control plane can't be reached; the rules in force stay");
  }

  #setTimer(): void {
    clearTimeout(this.#timer);
    const { wakeAtMs } = this.#session;
    if (wakeAtMs === Number.POSITIVE_INFINITY) return;
    // A millisecond more, because timers may fire slightly early.
    const waitMs = Math.max(0, wakeAtMs - this.#nowMs()) + 1;
    this.#timer = setTimeout(() => this.#tell((nowMs) => this.#session.wake(nowMs)), waitMs).unref();
  }

  #nowMs(): number {
    return this.#options.clock.nowUs() / 1_000;
  }

  #inTurn<T>(part: RulesPart, work: () => Promise<T>): Promise<T | undefined> {
    const done = this.#work.then(work).catch((cause: unknown) => {
      this.fault(part, cause);
      return undefined;
    });
    this.#work = done;
    return done;
  }

  async #queue(answer: DiscoveryAnswer): Promise<void> {
    let refusal: string | undefined = "the set can't be checked: see the log of the rate limit service";
    await this.#inTurn("set", async () => {
      refusal = await this.#judge(answer);
    });
    this.#firstJudged();
    this.#tell((nowMs) => this.#session.judged(refusal, nowMs));
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
    void this.#cache?.write(answer, this.#heardAtUs);
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
      const message = `the rule files in ${directory} conflict with the control plane's rules`;
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
        const message = "the rules in RULES_CACHE are invalid";
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
