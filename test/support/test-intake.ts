// The way of takes to a server that a test stands for: what leaves is kept, and answered when the test says so.

import type { Take, TakeGroup } from "../../src/engine/domain/take.ts";
import { Batch } from "../../src/stores/batching/batch.ts";
import { Intake, type ProbeBucket } from "../../src/stores/batching/intake.ts";
import { type BatchingOptions, completeOptions } from "../../src/stores/batching/options.ts";
import { ReplyReader } from "../../src/stores/batching/reply.ts";

/** Has room for three takes, or for so many. */
export class SmallBatch extends Batch {
  readonly #takesMax: number;

  constructor(queue: number, takesMax = 3) {
    super(queue);
    this.#takesMax = takesMax;
  }

  hasRoomFor(group: TakeGroup): boolean {
    return this.takes + group.size <= this.#takesMax;
  }
}

/** The takes that give payments back in a batch. */
export function giveBacksOf(batch: Batch | undefined): Take[] {
  const groups = batch?.groups.filter(({ isGiveBack }) => isGiveBack) ?? [];
  return groups.flatMap(({ group }) => group.takes.slice(0, group.size));
}

interface TestIntakeOptions<B extends Batch> {
  readonly options: BatchingOptions;
  readonly newBatch: (queue: number) => B;
  /** Called at the end of a turn. */
  readonly send?: (intake: TestIntake<B>) => void;
  readonly probe?: ProbeBucket;
  /** Whether its connections carry one call each, as those of PostgreSQL. */
  readonly isOneByOne?: boolean;
}

export class TestIntake<B extends Batch = SmallBatch> extends Intake<B> {
  isUp = true;
  /** Why connections were given up. */
  readonly silent: string[] = [];
  readonly #made: TestIntakeOptions<B>;

  constructor(made: TestIntakeOptions<B>) {
    super(completeOptions(made.options), "The server", made.isOneByOne !== true);
    this.#made = made;
  }

  /** Everything that may leave now. */
  ready(): B[] {
    const batches: B[] = [];
    for (let batch = this.next(); batch !== undefined; batch = this.next()) batches.push(batch);
    return batches;
  }

  /** The connections are closed. */
  override end(): void {
    super.end();
  }

  protected get down(): string | undefined {
    return this.isUp ? undefined : "The server is away";
  }

  protected newBatch(queue: number): B {
    return this.#made.newBatch(queue);
  }

  protected send(): void {
    this.#made.send?.(this);
  }

  onSilence(_batch: B, trouble: string): void {
    this.silent.push(trouble);
  }

  protected probeBucket(): ProbeBucket | undefined {
    return this.#made.probe;
  }
}

/** A reply that allows a batch's groups of one take each, paid at that time. */
export function allowing(batch: Batch, serverUs = 0, paidAtUs = 77): ReplyReader {
  return new ReplyReader([serverUs, 0, ...batch.groups.flatMap(() => [1, 5, 6, 0, 9, paidAtUs, 0])]);
}
