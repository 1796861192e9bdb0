// A stream of StreamRateLimitQuotas as an Envoy opens it, in the hands of a test.

import * as grpc from "@grpc/grpc-js";
import { endWithTest } from "./ends.ts";
import { loadProto } from "./load-proto.ts";

const service = loadProto()["envoy.service.rate_limit_quota.v3.RateLimitQuotaService"] as grpc.ServiceDefinition;
const { path, requestSerialize, responseDeserialize } = service.StreamRateLimitQuotas as grpc.MethodDefinition<
  object,
  Answer
>;

export type BucketIdEntries = Readonly<Record<string, string>>;

interface Answer {
  readonly bucket_action: readonly {
    readonly bucket_id: { readonly bucket: BucketIdEntries };
    readonly bucket_action: "quota_assignment_action" | "abandon_action";
    readonly quota_assignment_action?: {
      readonly assignment_time_to_live: { readonly seconds: string };
      readonly rate_limit_strategy: {
        readonly strategy: "blanket_rule" | "token_bucket";
        readonly blanket_rule?: "ALLOW_ALL" | "DENY_ALL";
        readonly token_bucket?: {
          readonly max_tokens: number;
          readonly tokens_per_fill: { readonly value: number };
          readonly fill_interval: { readonly seconds: string };
        };
      };
    };
  }[];
}

/** One stream. What it was told of each bucket, in a word or two: `deny`, `allow`, `abandon`, or `6000/min, 25 tokens`. */
export class QuotaStream {
  /** By id, as JSON with its keys in order. */
  readonly told = new Map<string, string>();
  /** How the stream ended: code and details. */
  end: string | undefined;
  answers = 0;
  readonly #call: grpc.ClientDuplexStream<object, Answer>;

  constructor(target: string, { isRead = true } = {}) {
    const client = new grpc.Client(target, grpc.credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
    endWithTest(() => client.close());
    this.#call = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize);
    if (isRead) this.#call.on("data", (answer: Answer) => this.#hear(answer));
    this.#call.on("status", ({ code, details }: grpc.StatusObject) => {
      this.end = `${code} ${details}`;
    });
    this.#call.on("error", () => undefined);
    endWithTest(() => this.#call.cancel());
  }

  report(
    domain: string,
    usages: readonly {
      readonly id: BucketIdEntries;
      readonly allowed?: number | string;
      readonly denied?: number;
      readonly seconds?: number;
    }[],
  ): void {
    this.#call.write({
      domain,
      bucket_quota_usages: usages.map(({ id, allowed = 0, denied = 0, seconds = 0 }) => ({
        bucket_id: { bucket: id },
        time_elapsed: { seconds },
        num_requests_allowed: allowed,
        num_requests_denied: denied,
      })),
    });
  }

  /** What it was told last of a bucket. */
  toldOf(id: BucketIdEntries): string | undefined {
    return this.told.get(keyOf(id));
  }

  close(): void {
    this.#call.end();
  }

  #hear({ bucket_action: actions }: Answer): void {
    this.answers++;
    for (const { bucket_id: id, quota_assignment_action: assigned } of actions) {
      const strategy = assigned?.rate_limit_strategy;
      const bucket = strategy?.token_bucket;
      this.told.set(
        keyOf(id.bucket),
        strategy === undefined
          ? "abandon"
          : strategy.strategy === "blanket_rule"
            ? strategy.blanket_rule === "ALLOW_ALL"
              ? "allow"
              : "deny"
            : `${bucket?.tokens_per_fill.value}/${bucket?.fill_interval.seconds}s, ${bucket?.max_tokens} tokens`,
      );
    }
  }
}

function keyOf(id: BucketIdEntries): string {
  return JSON.stringify(Object.entries(id).sort());
}
