// Connects the parts of tracing: OpenTelemetry's provider and sampler, the queue and the exporter. Used only if
// settings ask for traces.

import { randomUUID } from "node:crypto";
import type { Clock } from "../../../base/clock.ts";
import { errorCode, errorMessage } from "../../../base/thrown.ts";
import { waitAtMost } from "../../../base/wait-at-most.ts";
import type { Settings } from "../../../settings/settings.ts";
import type { RateLimitedLog } from "../rate-limited-log.ts";
import { type CallKind, type CallTracer, callTracer } from "./call-tracer.ts";
import { orSayWhatIsMissing } from "./load-packages.ts";
import { SpanQueue } from "./span-queue.ts";

interface TracesOptions {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly version: string;
  readonly rareLog: RateLimitedLog;
}

/** Packing a batch delays calls: 64 spans by 1 ms, OpenTelemetry's default of 512 by 10 ms (bench/micro/traces.mjs). */
const QUEUE_BOUNDS = { spansMax: 2_048, batchSpansMax: 64, delayMs: 500, exportMs: 10_000 };
const REASON_CHARS_MAX = 256;

/** The traces of one process. */
export interface Traces {
  readonly counts: Pick<SpanQueue, "sent" | "failed" | "dropped">;
  /** Makes the spans of one kind of call. */
  tracerOf(kind: CallKind): CallTracer;
  /** Sends what waits, for at most `waitMs` milliseconds, then drops the rest. */
  close(waitMs: number): Promise<void>;
}

/**
 * Undefined unless settings ask for traces. Rejects with ConfigError if packages are missing or certificates can't be
 * used.
 */
export async function openTraces({ settings, clock, version, rareLog }: TracesOptions): Promise<Traces | undefined> {
  const { traces } = settings;
  if (traces === undefined) return undefined;
  const { api, sdk, resources, opened } = await orSayWhatIsMissing(traces.protocol, async () => ({
    api: await import("@opentelemetry/api"),
    sdk: await import("@opentelemetry/sdk-trace-base"),
    resources: await import("@opentelemetry/resources"),
    opened: await (await import("./exporter.ts")).openExporter(traces),
  }));
  const { exporter, cutOff } = opened;
  const queue = new SpanQueue({
    exporter,
    cutOff,
    ...QUEUE_BOUNDS,
    onTrouble: (error) =>
      rareLog.warn("spans lost", "spans did not reach the collector", () => ({ reason: reasonOf(error) })),
  });
  const attributes = { "service.instance.id": randomUUID(), ...traces.resource, "service.version": version };
  const provider = new sdk.BasicTracerProvider({
    resource: resources.defaultResource().merge(resources.resourceFromAttributes(attributes)),
    sampler: new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(traces.samplingRate) }),
    spanProcessors: [queue],
  });
  const tracer = provider.getTracer("headgate", version);
  return {
    counts: queue,
    tracerOf: (kind) => callTracer({ api, tracer, clock, kind }),
    async close(waitMs) {
      await waitAtMost(waitMs, queue.forceFlush());
      await queue.shutdown();
      // Not waited for: the exporter waits for all answers, however long they take.
      exporter.shutdown().catch(() => undefined);
      if (queue.dropped > 0 || queue.failed > 0)
        rareLog.warn("spans at end", "spans were lost since the start", () => ({
          failed: queue.failed,
          dropped: queue.dropped,
        }));
    },
  };
}

/** Cut, because the collector chooses the text. An error of several addresses has a code but no message. */
function reasonOf(error: unknown): string {
  return (errorMessage(error) || (errorCode(error) ?? "")).slice(0, REASON_CHARS_MAX);
}
