// A caller in front of Envoy: real HTTP requests, one after another or many at once.

import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { endWithTest } from "../../support/ends.ts";

/** What came back; header values as sent, one per line of the response. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly body: string;
}

/** Sends requests to one port and keeps its connections. */
export class Caller {
  readonly #port: number;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 64 });

  constructor(port: number) {
    this.#port = port;
    endWithTest(() => this.close());
  }

  /** Sends a GET, or by another method; rejects only when there is no HTTP answer at all. */
  get(path: string, headers: Readonly<Record<string, string>> = {}, method = "GET"): Promise<Answer> {
    const options = { host: "127.0.0.1", port: this.#port, path, method, headers, agent: this.#agent };
    return new Promise((resolve, reject) => {
      const sent = request(options, (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () => {
          const distinct = response.headersDistinct as Readonly<Record<string, readonly string[]>>;
          resolve({ status: response.statusCode ?? 0, headers: distinct, body: Buffer.concat(chunks).toString() });
        });
      });
      sent.on("error", reject);
      sent.end();
    });
  }

  /** The statuses of `times` requests, one after another. */
  async statuses(times: number, path: string, headers: Readonly<Record<string, string>> = {}): Promise<number[]> {
    const statuses: number[] = [];
    for (let i = 0; i < times; i++) statuses.push((await this.get(path, headers)).status);
    return statuses;
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** The values of a response header as one text; undefined if there isn't one. */
export function headerOf(answer: Answer, name: string): string | undefined {
  return answer.headers[name]?.join(" | ");
}

/** Callers that send one request after another until they are told to stop. */
export class Load {
  /** How many answers of each status came; 0 stands for no answer at all. */
  readonly statuses = new Map<number, number>();
  #isOver = false;
  readonly #callers: Promise<void>[];

  constructor(callers: number, send: () => Promise<Answer>) {
    this.#callers = Array.from({ length: callers }, () => this.#run(send));
  }

  get total(): number {
    return [...this.statuses.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Resolves when the requests under way are answered. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#callers);
  }

  async #run(send: () => Promise<Answer>): Promise<void> {
    while (!this.#isOver) {
      const status = await send().then(
        (answer) => answer.status,
        () => 0,
      );
      this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
      // A pause, so that the load generator leaves the machine to those it loads.
      await sleep(1);
    }
  }
}
