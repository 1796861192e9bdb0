// The state of a process's snapshots, in memory that its threads share: one of them keeps snapshots, and each shows their state.

const NUMBERS = ["beganAtUs", "bytes", "seconds", "written", "failed", "refused"] as const;
const TROUBLE_BYTES_MAX = 1_000;

export class SnapshotStatus {
  readonly buffer: SharedArrayBuffer;
  readonly #numbers: Float64Array;
  /** Its length, then the text in UTF-8. */
  readonly #troubleLength: Int32Array;
  readonly #trouble: Uint8Array;

  /** `buffer`: that of another thread's SnapshotStatus; by default a new one. */
  constructor(buffer = new SharedArrayBuffer(NUMBERS.length * 8 + 4 + TROUBLE_BYTES_MAX)) {
    this.buffer = buffer;
    this.#numbers = new Float64Array(buffer, 0, NUMBERS.length);
    this.#troubleLength = new Int32Array(buffer, NUMBERS.length * 8, 1);
    this.#trouble = new Uint8Array(buffer, NUMBERS.length * 8 + 4);
  }

  /** When the snapshot in the file was begun, in microseconds since the epoch; undefined if there is none. */
  get beganAtUs(): number | undefined {
    return this.#read("beganAtUs") || undefined;
  }

  get bytes(): number {
    return this.#read("bytes");
  }

  /** Seconds that writing it took; 0 if an earlier process wrote it. */
  get seconds(): number {
    return this.#read("seconds");
  }

  get written(): number {
    return this.#read("written");
  }

  get failed(): number {
    return this.#read("failed");
  }

  /** Number of files that were found and could not be used. */
  get refused(): number {
    return this.#read("refused");
  }

  /** Why no snapshot can be written or read, in one sentence. */
  get trouble(): string | undefined {
    const length = Atomics.load(this.#troubleLength, 0);
    return length === 0 ? undefined : Buffer.from(this.#trouble.slice(0, length)).toString();
  }

  set trouble(trouble: string | undefined) {
    const { written } = new TextEncoder().encodeInto(trouble ?? "", this.#trouble);
    Atomics.store(this.#troubleLength, 0, written);
  }

  /** A snapshot that was begun then is in the file. */
  noteFile(beganAtUs: number, bytes: number, seconds: number): void {
    this.#numbers.set([beganAtUs, bytes, seconds]);
  }

  count(what: "written" | "failed" | "refused"): void {
    this.#numbers[NUMBERS.indexOf(what)] = this.#read(what) + 1;
  }

  #read(what: (typeof NUMBERS)[number]): number {
    return this.#numbers[NUMBERS.indexOf(what)] as number;
  }
}
