// A rate limit service that keeps what Envoy asks, and answers as the request's own entries tell it.

import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from "@grpc/grpc-js";
import { RATE_LIMIT_SERVICE } from "../../../src/grpc/transport/load-proto.ts";
import { endWithTest } from "../../support/ends.ts";
import { loadProto } from "../../support/load-proto.ts";

/** Key of the entry that names the case a call belongs to. */
export const CASE_ENTRY = "case";

interface WireRequest {
  readonly hits_addend: number;
  readonly descriptors: readonly {
    readonly entries: readonly { readonly key: string; readonly value: string }[];
    readonly hits_addend: { readonly value: string } | null;
  }[];
}

/** A descriptor as it was asked: its entries but for the case, and its hits, undefined if it brought none. */
export interface AskedDescriptor {
  readonly entries: Readonly<Record<string, string>>;
  readonly hits: number | undefined;
}

/** A call of Envoy. */
export interface Asked {
  readonly descriptors: readonly AskedDescriptor[];
  /** Of the whole call; 0 is the same as absent. */
  readonly hitsAddend: number;
  /** True if Envoy gave it up before it was answered. */
  isCancelled: boolean;
}

/** Listens on a free port of the loopback. */
export class RlsRecorder {
  /** True: every call is refused. */
  refuses = false;
  #port = 0;
  readonly #server = new Server();
  readonly #asked: { readonly name: string; readonly call: Asked }[] = [];

  get port(): number {
    return this.#port;
  }

  /** It refuses calls with an entry `answer` of `refuse`, and never answers those of which it is `never`. */
  static async start(): Promise<RlsRecorder> {
    const recorder = new RlsRecorder();
    const service = loadProto()[RATE_LIMIT_SERVICE] as Parameters<Server["addService"]>[0];
    const ShouldRateLimit = (call: ServerUnaryCall<WireRequest, unknown>, answer: sendUnaryData<unknown>) =>
      recorder.#keep(call, answer);
    recorder.#server.addService(service, { ShouldRateLimit } as Parameters<Server["addService"]>[1]);
    recorder.#port = await new Promise<number>((resolve, reject) => {
      recorder.#server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
        error === null ? resolve(bound) : reject(error),
      );
    });
    endWithTest(() => recorder.#server.forceShutdown());
    return recorder;
  }

  /** All that has been asked so far, in order, or what has been asked for one case. */
  calls(name?: string): readonly Asked[] {
    return this.#asked.filter((kept) => name === undefined || kept.name === name).map(({ call }) => call);
  }

  #keep(call: ServerUnaryCall<WireRequest, unknown>, answer: sendUnaryData<unknown>): void {
    const entries = call.request.descriptors.flatMap((descriptor) => descriptor.entries);
    const read = (key: string) => entries.find((entry) => entry.key === key)?.value;
    const kept: Asked = { ...askedBy(call.request), isCancelled: false };
    this.#asked.push({ name: read(CASE_ENTRY) ?? "", call: kept });
    if (read("answer") === "never") {
      call.on("cancelled", () => {
        kept.isCancelled = true;
      });
      return;
    }
    const isRefused = this.refuses || read("answer") === "refuse";
    answer(null, { overall_code: isRefused ? "OVER_LIMIT" : "OK", statuses: [] });
  }
}

function askedBy({ descriptors, hits_addend }: WireRequest): Omit<Asked, "isCancelled"> {
  return {
    hitsAddend: hits_addend,
    descriptors: descriptors.map(({ entries, hits_addend: own }) => ({
      entries: Object.fromEntries(
        entries.filter(({ key }) => key !== CASE_ENTRY).map(({ key, value }) => [key, value]),
      ),
      hits: own === null ? undefined : Number(own.value),
    })),
  };
}
