// The spans on their way to the collector: a bounded queue, one batch at a time, each with a time limit. Spans beyond
// the bound are dropped and counted, so no call waits for a collector. It replaces OpenTelemetry's own queue, which
// does not report what it drops and whose shutdown may wait for ever.

import type { ReadableSpan, SpanExporter, SpanProcessor } from "@opentelemetry/sdk-trace-base";

interface SpanQueueOptions {
  readonly exporter: SpanExporter;
  /** Most spans that wait, in addition to the batch under way. */
  readonly spansMax: number;
  readonly batchSpansMax: number;
  /** How long a span waits for others. */
  readonly delayMs: number;
  /** Time limit for a batch, retries included; then the batch is lost. */
  readonly exportMs: number;
  /** Closes the exporter's connections. */
  readonly cutOff: () => void;
  /** Called for each lost batch; must not throw. */
  readonly onTrouble: (error: unknown) => void;
}

/** `ExportResultCode.SUCCESS` of @opentelemetry/core, which would be needed for nothing else. */
const SUCCESS = 0;

export class SpanQueue implements SpanProcessor {
  readonly #options: SpanQueueOptions;
  #waiting: ReadableSpan[] = [];
  #timer: NodeJS.Timeout | undefined;
  #soon: NodeJS.Immediate | undefined;
  #underWay: Promise<void> | undefined;
  /** Ends the batch under way as lost. */
  #giveUp: ((error: Error) => void) | undefined;
  #isClosed = false;
  /** Numbers of spans: taken by the collector, lost in sending, and never sent. */
  sent = 0;
  failed = 0;
  dropped = 0;

  constructor(options: SpanQueueOptions) {
    this.#options = options;
  }

  onStart(): void {
    // A span is queued only when it has ended.
  }

  /** Every recorded span is sampled: no sampler here records for any other purpose. */
  onEnd(span: ReadableSpan): void {
    const { spansMax, batchSpansMax, delayMs } = this.#options;
    if (this.#isClosed || this.#waiting.length >= spansMax) {
      this.dropped++;
      return;
    }
    this.#waiting.push(span);
    if (this.#underWay !== undefined) return;
    // Encoding a batch takes a while, so the answers of this turn go out first.
    if (this.#waiting.length >= batchSpansMax) this.#soon ??= setImmediate(() => this.#send());
    else this.#timer ??= setTimeout(() => this.#send(), delayMs).unref();
  }

  /** Sends what waits; resolves when no span waits or is under way. */
  async forceFlush(): Promise<void> {
    while (this.#waiting.length > 0 || this.#underWay !== undefined) {
      if (this.#underWay === undefined) this.#send();
      await this.#underWay;
    }
  }

  /** Takes no more spans, drops those that wait and gives up those under way; call `forceFlush` before. */
  shutdown(): Promise<void> {
    this.#isClosed = true;
    this.#clearTimers();
    this.dropped += this.#waiting.length;
    this.#waiting = [];
    this.#giveUp?.(new Error("the process ends"));
    this.#options.cutOff();
    return Promise.resolve();
  }

  // A full batch follows at once; fewer spans wait for others.
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
        this.#giveUp = undefined;
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
      this.#giveUp = end;
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
