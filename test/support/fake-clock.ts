// A clock of its own for a server process, set while it runs; fake-clock.c is what does it. Timers go on as they were: only
// what the process reads as the time of day moves.

import { spawnSync } from "node:child_process";
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { endWithTest } from "./ends.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const SOURCE = join(import.meta.dirname, "fake-clock.c");

/** Whether there is a compiler to make one with, on a system that can load it. */
export function canFakeClocks(): boolean {
  return process.platform === "linux" && spawnSync("cc", ["--version"], { stdio: "ignore" }).status === 0;
}

/** The clock of the processes that are started with its `env`; it shows the machine's time until it is set. */
export class FakeClock {
  readonly #folder = temporaryFolder("headgate-clock");
  readonly #file: number;
  /** What a process must have in its environment. */
  readonly env: Readonly<Record<string, string>>;
  #offsetMs = 0;

  /** Compiles the library. Throws with the compiler's words if it can't. */
  constructor() {
    const library = join(this.#folder, "fake-clock.so");
    const { status, stderr } = spawnSync("cc", ["-shared", "-fPIC", "-O1", "-o", library, SOURCE], {
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`the fake clock can't be made: ${stderr}`);
    const path = join(this.#folder, "offset");
    this.#file = openSync(path, "w");
    endWithTest(() => closeSync(this.#file));
    this.env = { LD_PRELOAD: library, FAKE_CLOCK_FILE: path };
    this.set(0);
  }

  /** How far it is before the machine's. */
  get offsetMs(): number {
    return this.#offsetMs;
  }

  /** Puts the clock this much before the machine's, or behind it if negative. */
  set(offsetMs: number): void {
    this.#offsetMs = offsetMs;
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(Math.round(offsetMs * 1_000)));
    writeSync(this.#file, bytes, 0, bytes.length, 0);
  }
}
