// gRPC on a port or a Unix socket, by packages/fast-lane, with health and reflection. grpc-server.ts has the same
// interface.

import { type Bounds, type RunningServer, type StreamCall, type StreamMethod, serve } from "#fast-lane";
import { getOrInsert } from "../../base/get-or-insert.ts";
import { GrpcStatus, whyUnknown } from "../unary.ts";
import { grpcCannotListen, removeAbandonedSocket } from "./listen-address.ts";
import { otherServices } from "./other-services.ts";
import { type TlsFiles, whyNotNamed } from "./tls-files.ts";
import type { GrpcServer, GrpcServerOptions, MessageCall, MessageMethod } from "./transport.ts";

export interface FastLaneOptions extends GrpcServerOptions {
  /** The HTTP port of this process, for answers to people who ask here by mistake. */
  readonly httpPort?: number | undefined;
  /** Bounds that differ from the defaults; for tests. */
  readonly bounds?: Partial<Bounds> | undefined;
}

/** A listening server and its counters. */
type FastLaneServer = GrpcServer & Pick<RunningServer, "counts">;

/** Starts to listen. Rejects with ConfigError if it can't, in one sentence that names address and settings. */
export async function startFastLane(options: FastLaneOptions): Promise<FastLaneServer> {
  const { httpPort, observer, tls, methods: unary, streams = [], onDrain, ...same } = options;
  // Watches are bounded as all streams that wait (Bounds.waitingStreamsMax).
  const { methods, health } = otherServices(options, Number.POSITIVE_INFINITY);
  await removeAbandonedSocket(options);
  const server = await serve({
    ...same,
    methods: [...unary, ...methods.map(onBytes), ...streams],
    tls: tls && certificatesOf(tls),
    hint: httpPort === undefined ? "HTTP is served elsewhere." : `HTTP is on port ${httpPort}.`,
    lateDetails: "SERVICE_DEADLINE: the deadline passed before the call was read",
    observer: {
      handlerFailed: (path, error) => observer.handlerFailed(path, error),
      overloaded: (path) => observer.overloaded(path),
      unserved: (reason, path) => observer.unserved(reason === "compressed" ? reason : whyUnknown(path), path),
    },
  }).catch((error: Error) => {
    throw grpcCannotListen(options, error);
  });
  return {
    ...server,
    troubles: server.counts.troubles,
    drain(graceMs) {
      health.close();
      onDrain?.();
      return server.drain(graceMs);
    },
  };
}

function certificatesOf(files: TlsFiles) {
  const { clientName } = files.names;
  return {
    options: files.options,
    subscribe: files.subscribe.bind(files),
    refusalOf: (raw: Buffer | undefined) => (clientName === undefined ? undefined : whyNotNamed(raw, clientName)),
  };
}

function onBytes({ definition, handle }: MessageMethod): StreamMethod {
  const { path, requestStream: takesMany, requestDeserialize, responseSerialize } = definition;
  const calls = new WeakMap<StreamCall, MessageCall>();
  const withMessages = (call: StreamCall): MessageCall => ({
    get unread() {
      return call.unread;
    },
    answer: (message) => call.answer(responseSerialize(message)),
    end: (status) => call.end(status),
    onOver: (listener) => call.onOver(listener),
  });
  const read = (bytes: Buffer, call: StreamCall): object | undefined => {
    try {
      return requestDeserialize(bytes);
    } catch {
      call.end({ code: GrpcStatus.internal, details: "Error deserializing request" });
      return undefined;
    }
  };
  return {
    path,
    takesMany,
    handle(bytes, call) {
      const request = bytes && read(bytes, call);
      if (bytes !== undefined && request === undefined) return;
      handle(
        request,
        getOrInsert(calls, call, () => withMessages(call)),
      );
    },
  };
}
