// Reads how a service process fares from its metrics: what it counted, its memory, and what it holds open.

import type { ServiceProcess } from "../support/service-process.ts";

/** The metrics of a process at one moment. */
export class Figures {
  readonly #text: string;

  private constructor(text: string) {
    this.#text = text;
  }

  static async of({ httpPort }: Pick<ServiceProcess, "httpPort">): Promise<Figures> {
    return new Figures(await (await fetch(`http://127.0.0.1:${httpPort}/metrics`)).text());
  }

  /** The sum of all samples of a metric whose labels hold `labels`. */
  sum(name: string, labels = ""): number {
    let sum = 0;
    for (const line of this.#text.split("\n")) {
      if (!line.startsWith(name) || !/[{ ]/.test(line.charAt(name.length)) || !line.includes(labels)) continue;
      sum += Number(line.slice(line.lastIndexOf(" ") + 1));
    }
    return sum;
  }

  get residentBytes(): number {
    return this.sum("process_resident_memory_bytes");
  }

  /** Sockets, servers, timers, requests: whatever would keep the process from ending. */
  get resources(): number {
    return this.sum("nodejs_active_resources_total");
  }

  /** What they are, for people. */
  get resourceLine(): string {
    const found = [...this.#text.matchAll(/^nodejs_active_resources\{type="([^"]*)"\} (\d+)/gm)];
    return found.map(([, type, count]) => `${count} ${type}`).join(", ");
  }
}

/** Megabytes per minute by which a series of samples grows, by least squares. */
export function slopePerMinute(samples: readonly { readonly atMs: number; readonly bytes: number }[]): number {
  const meanAt = mean(samples.map(({ atMs }) => atMs));
  const meanBytes = mean(samples.map(({ bytes }) => bytes));
  let above = 0;
  let below = 0;
  for (const { atMs, bytes } of samples) {
    above += (atMs - meanAt) * (bytes - meanBytes);
    below += (atMs - meanAt) ** 2;
  }
  return below === 0 ? 0 : ((above / below) * 60_000) / 1_000_000;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}
