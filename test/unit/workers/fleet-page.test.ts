// One page for all workers: what it holds while they come, answer, hang, stop and die.

import { beforeEach, expect, test, vi } from "vitest";
import { type Counts, readCounts } from "../../../src/operate/telemetry/sum-pages.ts";
import { FleetPage, type PageWorker } from "../../../src/process/workers/fleet-page.ts";
import type { ToWorker } from "../../../src/process/workers/messages.ts";

const HITS = "ratelimit_service_rate_limit_total_hits";
const page = (name: string, ...samples: string[]) =>
  `# TYPE ${name} counter\n${samples.map((sample) => `${name}${sample}\n`).join("")}`;

/** A worker that answers with `shows` as soon as it is asked, unless it hangs. */
class FakeWorker implements PageWorker {
  readonly counted: Counts = new Map();
  lastPage = "";
  showsPages = true;
  shows = "";
  /** Called in place of an answer. */
  whenAsked: (() => void) | undefined;

  send(message: ToWorker): void {
    if (message.kind !== "page wanted") return;
    if (this.whenAsked !== undefined) this.whenAsked();
    else fleet.take(message.id, this.shows, true);
  }

  tell(text: string): void {
    readCounts(text, this.counted);
  }
}

let workers: FakeWorker[];
let rules: string;
let fleet: FleetPage;
beforeEach(() => {
  workers = [new FakeWorker(), new FakeWorker()];
  rules = "a";
  fleet = new FleetPage({ workers: () => workers, own: async () => "", rules: () => rules });
});

function pair(): readonly [FakeWorker, FakeWorker] {
  return [workers[0] as FakeWorker, workers[1] as FakeWorker];
}

async function seriesOf(name: string): Promise<Readonly<Record<string, number>>> {
  let text = "";
  for await (const piece of fleet.text()) text += piece;
  const counts: Counts = new Map();
  readCounts(text, counts);
  return Object.fromEntries(counts.get(name) ?? []);
}

async function kill(worker: FakeWorker): Promise<void> {
  worker.showsPages = false;
  workers = workers.filter((each) => each !== worker);
  await fleet.bury(worker);
}

// Promise(processes): A metrics page is whole or an error, and counts a worker that dies meanwhile once.
test("one that dies while it is asked is in that page and in the next, once", async () => {
  const [victim, other] = pair();
  other.shows = page("a_total", " 1");
  victim.shows = page("a_total", " 10");
  await seriesOf("a_total");
  let burial: Promise<void> | undefined;
  victim.whenAsked = () => {
    burial = kill(victim);
  };
  expect(await seriesOf("a_total")).toEqual({ a_total: 11 });
  await burial;
  expect(await seriesOf("a_total")).toEqual({ a_total: 11 });
});

test("one that shows no pages any more but has not ended counts all the same", async () => {
  const [stopping, other] = pair();
  other.shows = page("a_total", " 1");
  stopping.shows = page("a_total", " 10");
  await seriesOf("a_total");
  stopping.showsPages = false;
  expect(await seriesOf("a_total")).toEqual({ a_total: 11 });
});

test("a series that the dead worker alone had stays as long as the rules, and then goes", async () => {
  const [victim, other] = pair();
  victim.shows = page(HITS, '{rule="t=acme"} 10', '{rule="t"} 1') + page("b_total", '{code="X"} 2');
  other.shows = page(HITS, '{rule="t"} 1') + page("b_total");
  await seriesOf(HITS);
  await kill(victim);
  expect(await seriesOf(HITS)).toEqual({ [`${HITS}{rule="t=acme"}`]: 10, [`${HITS}{rule="t"}`]: 2 });
  rules = "b";
  expect(await seriesOf(HITS)).toEqual({ [`${HITS}{rule="t"}`]: 2 });
  expect(await seriesOf("b_total")).toEqual({ 'b_total{code="X"}': 2 });
});

// Promise(processes): A metrics page is whole or an error, and counts a worker that dies meanwhile once.
test("is an error when no worker has sent anything, and not a page without metrics", async () => {
  vi.useFakeTimers();
  for (const worker of workers) worker.whenAsked = () => undefined;
  const outcome = seriesOf("a_total").catch((error: Error) => error.message);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await outcome).toBe("no worker has sent its metrics within 2000 ms");
  vi.useRealTimers();
});

test("is an error when a worker's part is longer than what is kept, and whole again after that", async () => {
  const [one, other] = pair();
  other.shows = page("a_total", " 1");
  const piece = page("b_total", " 1").repeat(400_000);
  let id = 0;
  const send = one.send.bind(one);
  one.send = (message) => {
    if (message.kind === "page wanted") id = message.id;
    one.whenAsked = () => {
      for (let i = 0; i < 10; i++) fleet.take(id, piece, i === 9);
    };
    send(message);
  };
  await expect(seriesOf("a_total")).rejects.toThrow("the metrics of a worker are longer than 67108864 characters");
  one.send = send;
  one.whenAsked = undefined;
  one.shows = page("a_total", " 2");
  expect(await seriesOf("a_total")).toEqual({ a_total: 3 });
});

test("keeps what all workers had counted when all of them are replaced, though the new ones have no hit yet", async () => {
  const [one, other] = pair();
  for (const worker of [one, other]) worker.shows = page(HITS, '{rule="x"} 50');
  expect(await seriesOf(HITS)).toEqual({ [`${HITS}{rule="x"}`]: 100 });
  for (const worker of [one, other]) await kill(worker);
  workers = [new FakeWorker(), new FakeWorker()];
  for (const worker of workers) worker.shows = page(HITS);
  // They have not said yet which rules they have; then they do.
  for (rules of ["", "a"]) expect(await seriesOf(HITS)).toEqual({ [`${HITS}{rule="x"}`]: 100 });
});

test("tells at any moment what all have counted together, asking nobody, and loses nothing while a worker dies", async () => {
  const [victim, other] = pair();
  victim.tell(page(HITS, '{rule="x"} 5') + page("a_total", " 1"));
  other.tell(page(HITS, '{rule="x"} 2', '{rule="y"} 1'));
  const all = { [HITS]: { [`${HITS}{rule="x"}`]: 7, [`${HITS}{rule="y"}`]: 1 } };
  expect(fleet.counts([HITS])).toEqual(all);
  const dying = kill(victim);
  expect(fleet.counts([HITS])).toEqual(all);
  await dying;
  expect(fleet.counts([HITS])).toEqual(all);
  // What is told is a copy.
  other.tell(page(HITS, '{rule="y"} 4'));
  expect(fleet.counts([HITS])[HITS]?.[`${HITS}{rule="y"}`]).toBe(4);
});
