// Lines on their way to a file, written some at a time in the background.

/** Lines are written at least this often, so a killed process loses no more than these milliseconds. */
const WRITE_MS = 500;
/** Once this many characters wait, they are written at once. */
const WRITE_CHARS = 262_144;

export class LineQueue {
  readonly #charsMax: number;
  readonly #write: (text: string, lines: number) => Promise<void>;
  readonly #timer: NodeJS.Timeout;
  #text = "";
  #lines = 0;
  /** Characters of lines that are not written yet. */
  #chars = 0;
  /** All writes so far, one after another. */
  #writes = Promise.resolve();

  /** `write` writes whole lines, one call after another; must not reject. At most `charsMax` characters wait for it. */
  constructor(charsMax: number, write: (text: string, lines: number) => Promise<void>) {
    this.#charsMax = charsMax;
    this.#write = write;
    this.#timer = setInterval(() => this.#flush(), WRITE_MS).unref();
  }

  /** Takes a line with its line feed; returns false if too much waits. */
  add(line: string): boolean {
    if (this.#chars + line.length > this.#charsMax) return false;
    this.#text += line;
    this.#lines++;
    this.#chars += line.length;
    if (this.#text.length >= WRITE_CHARS) this.#flush();
    return true;
  }

  /** Writes what is left. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#flush();
    await this.#writes;
  }

  #flush(): void {
    const [text, lines] = [this.#text, this.#lines];
    if (text === "") return;
    this.#text = "";
    this.#lines = 0;
    this.#writes = this.#writes.then(async () => {
      await this.#write(text, lines);
      this.#chars -= text.length;
    });
  }
}
