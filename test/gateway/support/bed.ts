// The test bed as a process of its own (bed.mjs), with resources that a test writes and edits, and callers in front of its Envoy.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { ownProcess, showOnFailure } from "../../support/child-processes.ts";
import { endWithTest } from "../../support/ends.ts";
import { freePort } from "../../support/redis-server.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { type Resource, yamlOf } from "./resources.ts";

const BED = resolve(import.meta.dirname, "../bed.mjs");
/** How long a test bed that runs on this machine already is waited for. */
const WAIT_SECONDS = "600";

/** What bed.mjs says when all is up: where its files are, and Headgate's HTTP port. */
interface Started {
  readonly folder: string;
  readonly headgate: number;
}

export class Bed {
  readonly #child: ChildProcess;
  readonly #resources: string;
  readonly #http: number;
  readonly #gatewayLog: string;
  /** What the gateway's clients show it, and know it by: tls.crt, tls.key, ca.crt. Gone when the test bed is. */
  readonly certificates: string;
  /** Of the listeners, in the order in which they were asked for. */
  readonly ports: readonly number[];

  private constructor(child: ChildProcess, resources: string, started: Started, ports: readonly number[]) {
    this.#child = child;
    this.#resources = resources;
    this.#http = started.headgate;
    this.#gatewayLog = join(started.folder, "gateway.log");
    this.certificates = join(started.folder, "home/certs/envoy-rate-limit");
    this.ports = ports;
  }

  /**
   * Starts it with so many listeners' ports, and what is made of them; each file can be written again later. `rules` is a folder of
   * files that stand beside the gateway's rules.
   */
  static async start(
    listeners: number,
    files: (ports: readonly number[]) => Readonly<Record<string, readonly Resource[]>>,
    { rules }: { readonly rules?: string } = {},
  ): Promise<Bed> {
    const resources = temporaryFolder("gateway-resources");
    const ports = await Promise.all(Array.from({ length: listeners }, () => freePort()));
    for (const [name, documents] of Object.entries(files(ports))) {
      writeFileSync(join(resources, `${name}.yaml`), yamlOf(documents));
    }
    const beside = rules === undefined ? [] : ["--rules", rules];
    const args = [BED, "--resources", resources, "--ports", ports.join(","), "--wait", WAIT_SECONDS, ...beside];
    const child = ownProcess(spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] }));
    const said: string[] = [];
    child.stderr?.on("data", (chunk: Buffer) => said.push(chunk.toString()));
    const started = await new Promise<Started>((found, reject) => {
      child.once("exit", (code) => reject(new Error(`the test bed ended with ${code}: ${said.join("")}`)));
      child.stdout?.once("data", (line: Buffer) => found(JSON.parse(line.toString())));
    });
    for (const name of ["gateway", "headgate"]) {
      const log = join(started.folder, `${name}.log`);
      showOnFailure(name, () => (existsSync(log) ? readFileSync(log, "utf8") : ""));
    }
    const bed = new Bed(child, resources, started, ports);
    endWithTest(() => bed.stop());
    return bed;
  }

  /** Puts other resources in the place of a file's; without any the file goes. */
  write(name: string, documents: readonly Resource[]): void {
    const file = join(this.#resources, `${name}.yaml`);
    if (documents.length === 0) {
      rmSync(file);
      return;
    }
    // The gateway watches the folder and never reads half a file.
    const whole = join(temporaryFolder("gateway-edit"), "edited.yaml");
    writeFileSync(whole, yamlOf(documents));
    renameSync(whole, file);
  }

  /** When the gateway had read its files last, in milliseconds since 1970: what it then makes of them goes to all others. */
  lastReadMs(): number {
    const log = readFileSync(this.#gatewayLog, "utf8");
    // Its Envoy writes to the same file: a line of the gateway may begin within one of Envoy's.
    const read = [...log.matchAll(/(\d{4}-\d\d-\d\dT[\d:.+Z-]+)\t(?:(?!\n|\d{4}-).)*reload resources finished/g)].at(
      -1,
    )?.[1];
    if (read === undefined) throw new Error("the gateway's log does not say that it has read its files");
    return Date.parse(read);
  }

  /** A page of Headgate's HTTP port. */
  async page(path: string): Promise<string> {
    return await (await fetch(`http://127.0.0.1:${this.#http}${path}`)).text();
  }

  /** How Headgate's buckets stand that a descriptor of these entries meets. */
  async peek(
    domain: string,
    entries: readonly { readonly key: string; readonly value: string }[],
  ): Promise<{ readonly buckets: readonly { readonly remaining: number; readonly live_holds?: number }[] }> {
    const body = JSON.stringify({ domain, descriptors: [{ entries }] });
    const answer = await fetch(`http://127.0.0.1:${this.#http}/buckets/peek`, { method: "POST", body });
    return (await answer.json()) as Awaited<ReturnType<Bed["peek"]>>;
  }

  /** The value of Headgate's metric with these labels; 0 if there isn't one. */
  async metric(name: string, labels = ""): Promise<number> {
    const lines = (await this.page("/metrics")).split("\n");
    const found = lines.filter((line) => line.startsWith(name) && line.includes(labels));
    return found.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const gone = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    await gone;
  }
}
