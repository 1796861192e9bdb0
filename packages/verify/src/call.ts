// Calls and their answers. Times are in milliseconds since the Unix epoch, with fractions.

/** What an answer says about one descriptor's limit. */
export interface Told {
  /** Whether it names this descriptor as one that refused; undefined if it doesn't say which did. */
  readonly isOver?: boolean | undefined;
  /** The limit that it names. */
  readonly quota?: number | undefined;
  readonly remaining?: number | undefined;
  /** Until the limit is full again; of a descriptor that refused, perhaps until the call could pass. */
  readonly resetMs?: number | undefined;
}

export interface Answer {
  readonly outcome: "granted" | "refused";
  /** One per descriptor; empty if the answer says nothing. */
  readonly told: readonly Told[];
}

/** A call without an answer. */
export interface Lost {
  readonly outcome: "lost";
  readonly why: string;
}

/** What is to be sent. */
export interface Planned {
  /** Milliseconds after the start. */
  readonly dueMs: number;
  /** Place of the kind of call in the plan. */
  readonly kind: number;
  /** Which caller. */
  readonly caller: number;
  readonly cost: number;
  /** Gives `cost` back. */
  readonly isRefund: boolean;
}

export interface Call extends Planned {
  /** How many limits it pays. */
  readonly limits: number;
  readonly sentMs: number;
  /** When the answer came, or a lost call was given up. */
  readonly receivedMs: number;
  readonly server: string;
  readonly answer: Answer | Lost;
}

export interface Entry {
  readonly key: string;
  readonly value: string;
}

export interface Question {
  readonly domain: string;
  readonly descriptors: readonly (readonly Entry[])[];
  readonly cost: number;
  readonly isRefund: boolean;
}

/** A server that can be asked. */
export interface Asked {
  readonly name: string;
  ask(question: Question, timeoutMs: number): Promise<Answer | Lost>;
  /** Resolves to whether it can be reached. */
  reach(timeoutMs: number): Promise<boolean>;
  close(): void;
}
