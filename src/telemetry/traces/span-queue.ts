// Spans on their way to the collector: a bounded queue, one batch at a time, each with an end. What has no room is dropped and
// counted: no call ever waits for a collector. In place of OpenTelemetry's own queue, which tells nobody what it drops and
// waits for a shutdown without end.

import type { ReadableSpan, SpanExporter, SpanProcessor } from "@opentelemetry/sdk-trace-base";

export interface SpanQueueOptions {
  readonly exporter: SpanExporter;
  /** Spans that wait at most, those of the batch that is under way not counted. */
  readonly spansMax: number;
  readonly batchSpansMax: number;
  /** How long a span waits for others. */
  readonly delayMs: number;
  /** How long one batch may take in all, repeats included. Then it is lost. */
  readonly exportMs: number;
  /** Ends what the exporter has open. */
  readonly cutOff: () => void;
  /** Told of a batch that was lost; must not throw. */
  readonly onTrouble: (error: unknown) => void;
}

/** `ExportResultCode.SUCCESS`, which is in a package that only this would be needed for. */
const SUCCESS = 0;
const FLAG_SAMPLED = 1;

export class SpanQueue implements SpanProcessor {
  readonly #options: SpanQueueOptions;
  #waiting: ReadableSpan[] = [];
  #timer: NodeJS.Timeout | undefined;
  #soon: NodeJS.Immediate | undefined;
  #underWay: Promise<void> | undefined;
  #isClosed = false;
  /** Spans that the collector has taken, that were sent and lost, and that were never sent. */
  sent = 0;
  failed = 0;
  dropped = 0;

  constructor(options: SpanQueueOptions) {
    this.#options = options;
  }

  onStart(): void {
    // Spans are of interest once they have ended.
  }

  onEnd(span: ReadableSpan): void {
    if ((span.spanContext().traceFlags & FLAG_SAMPLED) === 0) return;
    const { spansMax, batchSpansMax, delayMs } = this.#options;
    if (this.#isClosed || this.#waiting.length >= spansMax) {
      this.dropped++;
      return;
    }
    this.#waiting.push(span);
    if (this.#underWay !== undefined) return;
    // Packing takes a while: answers of this turn go out before.
    if (this.#waiting.length >= batchSpansMax) this.#soon ??= setImmediate(() => this.#send());
    else this.#timer ??= setTimeout(() => this.#send(), delayMs).unref();
  }

  /** Sends what waits. Resolves when nothing does any more. */
  async forceFlush(): Promise<void> {
    while (this.#waiting.length > 0 || this.#underWay !== undefined) {
      if (this.#underWay === undefined) this.#send();
      await this.#underWay;
    }
  }

  /** Takes no more spans. What still waits is dropped: flush before. */
  shutdown(): Promise<void> {
    this.#isClosed = true;
    this.#clearTimers();
    this.dropped += this.#waiting.length;
    this.#waiting = [];
    this.#options.cutOff();
    return Promise.resolve();
  }

  // Full batches follow each other at once; fewer spans wait for others.
  #send(): void {
    this.#clearTimers();
    if (this.#underWay !== undefined || this.#waiting.length === 0) return;
    const { batchSpansMax, delayMs } = this.#options;
    const batch = this.#waiting.splice(0, batchSpansMax);
    this.#underWay = this.#export(batch).finally(() => {
      this.#underWay = undefined;
      if (this.#isClosed || this.#waiting.length === 0) return;
      if (this.#waiting.length >= batchSpansMax) this.#send();
      else this.#timer = setTimeout(() => this.#send(), delayMs).unref();
    });
  }

  #clearTimers(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#soon);
    this.#timer = undefined;
    this.#soon = undefined;
  }

  #export(batch: ReadableSpan[]): Promise<void> {
    const { exporter, exportMs, cutOff, onTrouble } = this.#options;
    return new Promise((resolve) => {
      let isOver = false;
      const end = (error: unknown) => {
        if (isOver) return;
        isOver = true;
        clearTimeout(timer);
        if (error === undefined) this.sent += batch.length;
        else {
          this.failed += batch.length;
          onTrouble(error);
        }
        resolve();
      };
      const timer = setTimeout(() => {
        cutOff();
        end(new Error(`the collector did not answer within ${exportMs} ms`));
      }, exportMs).unref();
      try {
        exporter.export(batch, ({ code, error }) =>
          end(code === SUCCESS ? undefined : (error ?? new Error("refused"))),
        );
      } catch (error) {
        end(error);
      }
    });
  }
}
