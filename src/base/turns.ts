// Work that many ask for at once, such as pages: it waits in line, and each turn of the event loop takes from the line
// only while its time lasts, so that no call waits for all of it. Work of one kind that is long in itself:
// long-work.ts.

import { SystemClock } from "./clock.ts";
import { MICROS_PER_MILLI } from "./units.ts";

interface TurnsOptions {
  /** Time of the work in one turn; the last piece may exceed it. */
  readonly turnUs: number;
  /**
   * Rests as long as it worked: a turn of the event loop accepts one connection, so many long turns would keep callers
   * out.
   */
  readonly rests?: boolean;
  /** Most pieces of work that have begun and not ended, because they wait for something. */
  readonly underWayMax?: number;
}

const clock = new SystemClock();

export class Turns {
  readonly #turnUs: number;
  readonly #rests: boolean;
  readonly #underWayMax: number;
  readonly #line: (() => Promise<void>)[] = [];
  #underWay = 0;
  #isRunning = false;
  #beganUs = 0;
  /** When the next turn may begin. */
  #dueUs = 0;

  constructor({ turnUs, rests = false, underWayMax = Number.POSITIVE_INFINITY }: TurnsOptions) {
    this.#turnUs = turnUs;
    this.#rests = rests;
    this.#underWayMax = underWayMax;
  }

  /** Does `work` when its turn has come, first come, first served. Settles as `work` does. */
  run<T>(work: () => T | Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#line.push(async () => {
        this.#underWay++;
        try {
          resolve(await work());
        } catch (error) {
          reject(error);
        } finally {
          this.#underWay--;
          this.#start();
        }
      });
      this.#start();
    });
  }

  #start(): void {
    if (this.#isRunning || !this.#isDue()) return;
    this.#isRunning = true;
    const restUs = this.#dueUs - clock.nowUs();
    if (restUs > 0) setTimeout(this.#begin, restUs / MICROS_PER_MILLI);
    else setImmediate(this.#begin);
  }

  #isDue(): boolean {
    return this.#line.length > 0 && this.#underWay < this.#underWayMax;
  }

  readonly #begin = (): void => {
    this.#beganUs = clock.nowUs();
    this.#step();
  };

  readonly #step = (): void => {
    const tookUs = clock.nowUs() - this.#beganUs;
    if (tookUs < this.#turnUs && this.#isDue()) {
      void this.#line.shift()?.();
      // What the work goes on to do in promises is part of it: a tick that a microtask asks for comes after all
      // microtasks.
      queueMicrotask(() => process.nextTick(this.#step));
      return;
    }
    if (this.#rests) this.#dueUs = this.#beganUs + 2 * tookUs;
    this.#isRunning = false;
    this.#start();
  };
}
