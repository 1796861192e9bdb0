// The state of a process's snapshots, in memory that its threads share: one of them keeps snapshots, and each shows their state.

/** Room for the state as JSON, twice: the one is written while the other is read. Snapshots follow each other too slowly for more. */
const SLOT_BYTES = 8_192;
const TROUBLE_CHARS_MAX = 1_000;

interface SnapshotState {
  /** When the snapshot in the file was begun, in microseconds since the epoch; undefined if there is none. */
  readonly beganAtUs?: number;
  readonly bytes: number;
  /** Seconds that writing it took; 0 if an earlier process wrote it. */
  readonly seconds: number;
  readonly written: number;
  readonly failed: number;
  /** Number of files that were found and could not be used. */
  readonly refused: number;
  /** Why no snapshot can be written or read, in one sentence. */
  readonly trouble?: string | undefined;
}

export class SnapshotStatus {
  readonly buffer: SharedArrayBuffer;
  readonly #writes: Int32Array;

  /** `buffer`: that of another thread's SnapshotStatus; by default a new one. */
  constructor(buffer = new SharedArrayBuffer(8 + 2 * SLOT_BYTES)) {
    this.buffer = buffer;
    this.#writes = new Int32Array(buffer, 0, 1);
    if (this.#writes[0] === 0) this.#write({ bytes: 0, seconds: 0, written: 0, failed: 0, refused: 0 });
  }

  read(): SnapshotState {
    return JSON.parse(this.#slot(Atomics.load(this.#writes, 0)).toString()) as SnapshotState;
  }

  note(changes: Partial<SnapshotState>): void {
    this.#write({ ...this.read(), ...changes });
  }

  count(what: "written" | "failed" | "refused"): void {
    this.note({ [what]: this.read()[what] + 1 });
  }

  #write({ trouble, ...state }: SnapshotState): void {
    const next = (this.#writes[0] as number) + 1;
    this.#slot(next)
      .fill(" ")
      .write(JSON.stringify({ ...state, trouble: trouble?.slice(0, TROUBLE_CHARS_MAX) }));
    Atomics.store(this.#writes, 0, next);
  }

  #slot(writes: number): Buffer {
    return Buffer.from(this.buffer, 8 + (writes & 1) * SLOT_BYTES, SLOT_BYTES);
  }
}
