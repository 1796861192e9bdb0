// The metrics of all workers as one page: asks each for its own, adds them up, and keeps what ended ones had counted.

import { RULE_METRICS } from "../telemetry/metrics.ts";
import { addCounts, type Counts, keepHigherCounts, PageSum } from "../telemetry/sum-pages.ts";
import type { FleetCounts, ToWorker } from "./messages.ts";

/** A worker that has not sent its page by then is shown as it was last time: one that hangs must not blind the others. */
const PAGE_MS = 2_000;
/** Longest page of a worker, in characters: more than METRIC_RULES_MAX and METRIC_VALUES_MAX let one grow to by far. */
const PAGE_LENGTH_MAX = 67_108_864;

/** A worker as far as its page goes. */
export interface PageWorker {
  /** False before it can be asked, once it stops, and when it has ended. */
  readonly showsPages: boolean;
  /** The metrics that it sent last. */
  lastPage: string;
  /** Counters that it has told by itself, once a second. */
  readonly counted: Counts;
  send(message: ToWorker): void;
}

interface Wanted {
  readonly worker: PageWorker;
  text: string;
  isTooLong: boolean;
  readonly done: () => void;
}

interface FleetPageSources {
  /** All that have not been buried. */
  readonly workers: () => Iterable<PageWorker>;
  /** The page of the supervisor itself. */
  readonly own: () => Promise<string>;
  /** Which rules are in force, in any worker: any text that changes with them; empty while no worker has said. */
  readonly rules: () => string;
}

const RULE_NAMES = Object.values(RULE_METRICS).map(({ name }) => name);

export class FleetPage {
  readonly #sources: FleetPageSources;
  readonly #wanted = new Map<number, Wanted>();
  readonly #ended: Counts = new Map();
  /** Those that have ended and are not in `#ended` yet. */
  readonly #dying = new Set<PageWorker>();
  /** What was begun last; sums and burials don't mix. */
  #last: Promise<unknown> = Promise.resolve();
  #nextId = 1;
  #rules: string | undefined;

  constructor(sources: FleetPageSources) {
    this.#sources = sources;
  }

  /** The page of all, piece by piece. Throws if there would be nothing of the workers on it, or a part of them is too long. */
  async *text(): AsyncGenerator<string> {
    const sum = await this.#afterLast(() => this.#gather());
    yield* sum.text();
  }

  /** What all have counted together, as they told it last by themselves: at most a second or so old, and nobody is asked. */
  counts(metrics: readonly string[]): FleetCounts {
    const sum: Counts = new Map();
    const all = [this.#ended, ...[...this.#sources.workers(), ...this.#dying].map(({ counted }) => counted)];
    for (const counts of all) addCounts(sum, new Map(metrics.map((name) => [name, counts.get(name) ?? new Map()])));
    return Object.fromEntries([...sum].map(([name, series]) => [name, Object.fromEntries(series)]));
  }

  /** Takes part of a worker's page. */
  take(id: number, text: string, isLast: boolean): void {
    const wanted = this.#wanted.get(id);
    if (wanted === undefined) return;
    wanted.isTooLong ||= wanted.text.length + text.length > PAGE_LENGTH_MAX;
    if (wanted.isTooLong) wanted.text = "";
    else wanted.text += text;
    if (!isLast) return;
    if (!wanted.isTooLong) wanted.worker.lastPage = wanted.text;
    wanted.done();
  }

  /** A worker has ended: its counters stay in the sum as it showed or told them last. */
  async bury(worker: PageWorker): Promise<void> {
    for (const wanted of this.#wanted.values()) if (wanted.worker === worker) wanted.done();
    this.#dying.add(worker);
    await this.#afterLast(async () => {
      addCounts(this.#ended, await countsOf(worker));
      this.#dying.delete(worker);
    });
  }

  #afterLast<T>(run: () => Promise<T>): Promise<T> {
    const done = this.#last.then(run);
    this.#last = done.catch(() => undefined);
    return done;
  }

  async #gather(): Promise<PageSum> {
    const workers = [...this.#sources.workers()];
    const asked = workers.filter(({ showsPages }) => showsPages);
    const fits = await Promise.all(asked.map((worker) => this.#ask(worker)));
    if (fits.includes(false)) throw new Error(`the metrics of a worker are longer than ${PAGE_LENGTH_MAX} characters`);
    if (asked.length > 0 && asked.every(({ lastPage }) => lastPage === "")) {
      throw new Error(`no worker has sent its metrics within ${PAGE_MS} ms`);
    }
    const sum = new PageSum();
    // Who has ended meanwhile is buried after this page, and who stops only then: what they counted counts here too.
    const gone: Counts = new Map();
    for (const worker of workers) {
      if (worker.showsPages) await sum.add(worker.lastPage);
      else addCounts(gone, await countsOf(worker));
    }
    await sum.add(await this.#sources.own());
    this.#forgetOldRules(sum);
    sum.addCounts(gone);
    sum.addCounts(this.#ended);
    return sum;
  }

  // A series that only an ended worker had stays, so that no sum over series falls; those of rules as long as the rules do.
  #forgetOldRules(living: PageSum): void {
    const rules = this.#sources.rules();
    // All workers are new: what those before them counted is of the rules that will be in force again.
    if (rules === "") return;
    if (this.#rules !== undefined && rules !== this.#rules) living.forgetUnknown(this.#ended, RULE_NAMES);
    this.#rules = rules;
  }

  /** False if its page is too long. */
  #ask(worker: PageWorker): Promise<boolean> {
    const id = this.#nextId++;
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#wanted.delete(id);
        resolve(!wanted.isTooLong);
      };
      const timer = setTimeout(done, PAGE_MS);
      const wanted: Wanted = { worker, text: "", isTooLong: false, done };
      this.#wanted.set(id, wanted);
      worker.send({ kind: "page wanted", id });
    });
  }
}

// Never less than was shown of it, and what it told since.
async function countsOf({ lastPage, counted }: PageWorker): Promise<Counts> {
  const page = new PageSum();
  await page.add(lastPage);
  const counts = page.counts();
  keepHigherCounts(counts, counted);
  return counts;
}
