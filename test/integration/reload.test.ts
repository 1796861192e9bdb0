// Rules change under a running process: every way in which a directory can change is noticed, a bad state changes nothing.
// Real files and links. The waits are for the watcher, which has its own timers; they end as soon as it has acted.

import { cpSync, mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Log } from "../../src/base/log.ts";
import type { RuleSet } from "../../src/engine/rules/rule-set.ts";
import { Reloader } from "../../src/rule-sources/files/reload.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { PlainStatsBook } from "../support/rules.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

type ReloaderOptions = ConstructorParameters<typeof Reloader>[0];

let root: string;
let directory: string;
let reloader: Reloader | undefined;

beforeEach(() => {
  root = temporaryFolder("headgate-reload");
  directory = join(root, "rules");
  mkdirSync(directory);
});

afterEach(() => {
  reloader?.close();
  reloader = undefined;
});

const SILENT: Log = { info: () => undefined, warn: () => undefined, error: () => undefined };

function rules(domain: string, perMinute = 5): string {
  return `domain: ${domain}\ndescriptors:\n  - { key: k, rate_limit: { requests_per_unit: ${perMinute}, unit: minute } }\n`;
}

function put(name: string, text: string): void {
  writeFileSync(join(directory, name), text);
}

/** A reloader that has loaded once, and all sets it has published. */
async function begin(options: Partial<ReloaderOptions> = {}): Promise<{ reloader: Reloader; published: RuleSet[] }> {
  const begun = new Reloader({
    directory,
    load: { statsBook: new PlainStatsBook() },
    clock: new ManualClock(),
    log: SILENT,
    pollIntervalMs: 100,
    debounceMs: 20,
    ...options,
  });
  reloader = begun;
  const published: RuleSet[] = [];
  begun.subscribe((ruleSet) => published.push(ruleSet));
  await begun.start();
  return { reloader: begun, published };
}

function domainsOf(source: Reloader): string[] {
  return [...(source.current?.domains.keys() ?? [])];
}

function until(check: () => void): Promise<void> {
  return vi.waitFor(check, { timeout: 10_000, interval: 10 });
}

describe("changes that are noticed", () => {
  beforeEach(() => {
    put("a.yaml", rules("a"));
    put("b.yaml", rules("b"));
  });

  test.each([
    { name: "an edited file", change: () => put("a.yaml", rules("edited")), domains: ["edited", "b"] },
    { name: "a new file", change: () => put("c.yaml", rules("c")), domains: ["a", "b", "c"] },
    { name: "a removed file", change: () => unlinkSync(join(directory, "b.yaml")), domains: ["a"] },
    {
      name: "a file renamed away",
      change: () => renameSync(join(directory, "b.yaml"), join(directory, "b.yaml.off")),
      domains: ["a"],
    },
    {
      name: "a file renamed into place, as editors do",
      change: () => {
        put("a.yaml.new", rules("renamed"));
        renameSync(join(directory, "a.yaml.new"), join(directory, "a.yaml"));
      },
      domains: ["renamed", "b"],
    },
    {
      name: "a file in a new folder",
      change: () => {
        mkdirSync(join(directory, "sub"));
        put("sub/c.yaml", rules("c"));
      },
      domains: ["a", "b", "c"],
    },
  ])("$name", async ({ change, domains }) => {
    const { reloader, published } = await begin();
    change();
    await until(() => expect(domainsOf(reloader)).toEqual(domains));
    expect(published.map(({ version }) => version)).toEqual([1, 2]);
  });

  test.each([
    { name: "by the system's notice, long before the next poll", options: { pollIntervalMs: 60_000 } },
    { name: "by polling, where the system gives no notice", options: { pollIntervalMs: 50 }, folder: "sub" },
  ])("$name", async ({ options, folder = "" }) => {
    mkdirSync(join(directory, "sub"));
    put(join(folder, "z.yaml"), rules("z"));
    const { reloader } = await begin(options);
    put(join(folder, "z.yaml"), rules("zz"));
    await until(() => expect(domainsOf(reloader)).toContain("zz"));
  });

  test("the directory itself is a link that is swapped", async () => {
    const other = join(root, "other");
    cpSync(directory, other, { recursive: true });
    writeFileSync(join(other, "a.yaml"), rules("other"));
    const link = join(root, "current");
    symlinkSync(directory, link);
    const { reloader } = await begin({ directory: link });
    symlinkSync(other, `${link}.new`);
    renameSync(`${link}.new`, link);
    await until(() => expect(domainsOf(reloader)).toEqual(["other", "b"]));
    // The watch must now be on the other directory.
    writeFileSync(join(other, "a.yaml"), rules("again"));
    await until(() => expect(domainsOf(reloader)).toEqual(["again", "b"]));
  });

  test("the directory vanishes for a while: the last good rules stay, and it's noticed when it is back", async () => {
    const { reloader } = await begin();
    renameSync(directory, `${directory}.away`);
    await until(() => expect(reloader.status().lastError?.message).toContain("can't be used"));
    expect(domainsOf(reloader)).toEqual(["a", "b"]);
    renameSync(`${directory}.away`, directory);
    await until(() => expect(reloader.status().lastError).toBeUndefined());
    expect(reloader.current?.version).toBe(1);
    put("a.yaml", rules("back"));
    await until(() => expect(domainsOf(reloader)).toEqual(["back", "b"]));
  });
});

describe("a bad state", () => {
  test("changes nothing and is reported once, with every problem, until it is fixed", async () => {
    put("a.yaml", rules("a"));
    const clock = new ManualClock();
    const lines: string[] = [];
    const log: Log = { ...SILENT, error: (_fields, message) => lines.push(message) };
    const { reloader, published } = await begin({ clock, log });
    clock.advanceSeconds(60);
    put("a.yaml", "domain: a\nlimits: 1\nrules: 2\n");
    await until(() => expect(reloader.status().failures).toBe(1));
    const { lastError } = reloader.status();
    expect(lastError?.problems.map(({ line }) => line)).toEqual([2, 3]);
    expect(lastError?.atUs).toBe(clock.nowUs());
    expect(domainsOf(reloader)).toEqual(["a"]);
    expect(published).toHaveLength(1);
    // Two more polls over the same bad files: no second refusal, no second line in the log.
    await new Promise((resolve) => setTimeout(resolve, 250));
    expect(reloader.status().failures).toBe(1);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain("the last good rules stay in force");
    put("a.yaml", rules("mended"));
    await until(() => expect(domainsOf(reloader)).toEqual(["mended"]));
    expect(reloader.current?.version).toBe(2);
    expect(reloader.status()).toMatchObject({ loads: 2, failures: 1, lastError: undefined });
  });

  test("at start leaves no rules in force, and good files later come into force by themselves", async () => {
    put("a.yaml", "domain: [\n");
    const { reloader, published } = await begin();
    expect(reloader.current).toBeUndefined();
    expect(reloader.status()).toMatchObject({ loadedAtUs: undefined, failures: 1 });
    put("a.yaml", rules("a"));
    await until(() => expect(published.map(({ version }) => version)).toEqual([1]));
  });

  test("a directory that is missing at start is waited for", async () => {
    rmSync(directory, { recursive: true });
    const { reloader } = await begin();
    expect(reloader.status().lastError?.problems).toMatchObject([{ file: directory }]);
    mkdirSync(directory);
    put("a.yaml", rules("a"));
    await until(() => expect(domainsOf(reloader)).toEqual(["a"]));
  });
});

describe("reload on request", () => {
  test("sees what was written before it was asked, also while another load runs", async () => {
    put("a.yaml", rules("a"));
    const { reloader } = await begin();
    reloader.close();
    const first = reloader.reload();
    put("a.yaml", rules("b"));
    const second = reloader.reload();
    const third = reloader.reload();
    // Whether the first load saw the write is chance; when the second is through, it has been seen.
    expect(await Promise.all([first, second, third])).toContain("loaded");
    expect(domainsOf(reloader)).toEqual(["b"]);
  });

  test("says when nothing changed, and publishes nothing then", async () => {
    put("a.yaml", rules("a"));
    const { reloader, published } = await begin();
    reloader.close();
    expect(await reloader.reload()).toBe("unchanged");
    expect(published).toHaveLength(1);
    put("a.yaml", "domain: a\nlimits: 1\n");
    expect(await reloader.reload()).toBe("refused");
    put("a.yaml", rules("a"));
    expect(await reloader.reload()).toBe("unchanged");
    expect(reloader.current?.version).toBe(1);
    expect(reloader.status().lastError).toBeUndefined();
  });

  test("a subscriber that comes late gets the set in force, and none after it left", async () => {
    put("a.yaml", rules("a"));
    const { reloader } = await begin();
    reloader.close();
    const seen: number[] = [];
    const leave = reloader.subscribe(({ version }) => seen.push(version));
    put("a.yaml", rules("b"));
    await reloader.reload();
    leave();
    put("a.yaml", rules("c"));
    await reloader.reload();
    expect(seen).toEqual([1, 2]);
  });

  test("nothing is watched any more after close", async () => {
    put("a.yaml", rules("a"));
    const { reloader } = await begin();
    reloader.close();
    put("a.yaml", rules("b"));
    // Longer than two polls and the debounce.
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(domainsOf(reloader)).toEqual(["a"]);
  });
});
