// The metrics of all workers as one page: asks each worker, adds up their pages, and keeps the counters of workers that ended.

import { RULE_METRICS } from "../../operate/telemetry/metrics.ts";
import { addCounts, type Counts, keepHigherCounts, PageSum } from "../../operate/telemetry/sum-pages.ts";
import type { FleetCounts, ToWorker } from "./messages.ts";

/** After this time a worker's last page is used instead: one that hangs must not hide the others. */
const PAGE_MS = 2_000;
/** Longest page of a worker, in characters: far above what METRIC_RULES_MAX and METRIC_VALUES_MAX allow. */
const PAGE_LENGTH_MAX = 67_108_864;

/** What this file reads of a worker. */
export interface PageWorker {
  /** Whether it can be asked: false during its start, when it stops, and after its end. */
  readonly showsPages: boolean;
  /** Its last complete page. */
  lastPage: string;
  /** Counters that it has reported unasked, once a second. */
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
  /** All workers for which `bury` has not been called. */
  readonly workers: () => Iterable<PageWorker>;
  /** The supervisor's own metrics. */
  readonly own: () => Promise<string>;
  /** A text that changes when a worker's rules do; empty while no worker has reported. */
  readonly rules: () => string;
}

const RULE_NAMES = Object.values(RULE_METRICS).map(({ name }) => name);

export class FleetPage {
  readonly #sources: FleetPageSources;
  readonly #wanted = new Map<number, Wanted>();
  readonly #ended: Counts = new Map();
  /** Workers that have ended and are not in `#ended` yet. */
  readonly #dying = new Set<PageWorker>();
  /** The sum or burial begun last; each waits for the one before it. */
  #last: Promise<unknown> = Promise.resolve();
  #nextId = 1;
  #rules: string | undefined;

  constructor(sources: FleetPageSources) {
    this.#sources = sources;
  }

  /** The page of all workers, in pieces. Throws if no worker has ever sent its page, or if one is too long. */
  async *text(): AsyncGenerator<string> {
    const sum = await this.#afterLast(() => this.#gather());
    yield* sum.text();
  }

  /** The counters of all workers as reported last, so about a second old at most. Asks nobody. */
  counts(metrics: readonly string[]): FleetCounts {
    const sum: Counts = new Map();
    const all = [this.#ended, ...[...this.#sources.workers(), ...this.#dying].map(({ counted }) => counted)];
    for (const counts of all) addCounts(sum, new Map(metrics.map((name) => [name, counts.get(name) ?? new Map()])));
    return Object.fromEntries([...sum].map(([name, series]) => [name, Object.fromEntries(series)]));
  }

  /** Takes a piece of a worker's page. */
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

  /** A worker has ended: the counters that it showed or reported last stay in the sum. */
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
    // A worker that has ended meanwhile is buried after this page, and one that stops is buried later. Their counters count here too.
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

  // Series of ended workers stay, so that no sum over series falls. Series of rules stay only as long as the rules.
  #forgetOldRules(living: PageSum): void {
    const rules = this.#sources.rules();
    // All workers are new. They will load the rules that the ended workers counted for.
    if (rules === "") return;
    if (this.#rules !== undefined && rules !== this.#rules) living.forgetUnknown(this.#ended, RULE_NAMES);
    this.#rules = rules;
  }

  /** False if the worker's page is too long. */
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

// Never less than its last page showed, or than it has reported since.
async function countsOf({ lastPage, counted }: PageWorker): Promise<Counts> {
  const page = new PageSum();
  await page.add(lastPage);
  const counts = page.counts();
  keepHigherCounts(counts, counted);
  return counts;
}
