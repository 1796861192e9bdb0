// The register of the processes that share a store: who they are, what they have counted, and a longer report of each
// for those who ask.

/** A process; or one that is counted (batching/process-count.ts). */
export interface RegisteredProcess {
  readonly id: string;
  /** Its host, number and start, `ratelimit-0:12:mfx2k9p4`; empty for one that is counted. */
  readonly name: string;
  /** The version of the store's limits at run time when it had all of them; 0: never. */
  readonly version: number;
  /** What it has counted since its start; empty for one that is counted. */
  readonly calls: readonly number[];
}

/** The answer to a report. */
interface Beat {
  /** All that have reported lately. */
  readonly all: readonly RegisteredProcess[];
  /** True if the register did not have this one before. */
  readonly isNew: boolean;
}

/** A process that has not reported for so long is gone. */
export const PROCESS_GONE_MS = 10_000;
/** Longest report that a process publishes, in bytes; longer ones are not read. */
export const REPORT_BYTES_MAX = 32_768;
/** How many longer reports are read at once: some milliseconds of a slow network. */
export const REPORTS_AT_ONCE = 25;

/** Every method rejects if the store does not answer. */
export interface ProcessRegister {
  /** Reports `own`; undefined only asks. */
  beat(own: RegisteredProcess | undefined): Promise<Beat>;
  /** Keeps a longer report of a process that beats, of at most REPORT_BYTES_MAX, which only those who ask read. */
  publish(id: string, report: string): Promise<void>;
  /** The longer reports of all that have beaten lately. */
  published(): Promise<readonly string[]>;
  /** Removes what was reported under the id, so that the others need not wait until it is gone. */
  leave(id: string): Promise<void>;
}

/** What a beat says in Redis and PostgreSQL, without the process's id. */
export function processText({ version, calls, name }: RegisteredProcess): string {
  return `${version} ${calls.join() || "-"} ${name}`;
}

export function readProcess(id: string, text: string): RegisteredProcess {
  const [version, calls = "-", ...name] = text.split(" ");
  const counts = calls.split(",").map(Number);
  return {
    id,
    name: name.join(" "),
    version: Number(version),
    calls: counts.every(Number.isSafeInteger) ? counts : [],
  };
}
