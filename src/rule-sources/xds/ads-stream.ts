// One stream to a control plane by grpc-js, with a channel of its own and the certificates as they are when it opens.
// session.ts decides what is sent.

import { readFileSync } from "node:fs";
import { type ChannelCredentials, Client, type ClientDuplexStream, credentials, Metadata } from "@grpc/grpc-js";
import { errorMessage } from "../../base/thrown.ts";
import { type AnswerBounds, requestBytes } from "./discovery.ts";
import type { StreamRequest } from "./session.ts";

/** Where the control plane is, and what the client sends it. */
export interface ControlPlane {
  /** A gRPC target. */
  readonly url: string;
  readonly nodeId: string;
  readonly nodeMetadata: ReadonlyMap<string, string>;
  /** Metadata of the stream. */
  readonly headers: ReadonlyMap<string, string>;
  readonly bounds: AnswerBounds;
  /** Undefined: plaintext. */
  readonly tls: ControlPlaneTls | undefined;
  /** Version of this program. */
  readonly programVersion: string;
}

/** TLS towards the control plane. Files are PEM and read again for every stream, so that renewed ones take effect. */
interface ControlPlaneTls {
  /** Authorities of the server's certificate; undefined: those of Node.js. */
  readonly caFile: string | undefined;
  readonly certFile: string | undefined;
  readonly keyFile: string | undefined;
  /** The name that the server's certificate must carry; undefined: the host of the URL. */
  readonly serverName: string | undefined;
}

/** Gets the events of a stream. `ended` is the last one and comes once. */
interface StreamListener {
  connected(): void;
  message(bytes: Buffer): void;
  ended(why: string): void;
}

/**
 * HTTP/2 pings, which find a peer that is gone without closing the connection, after 5.5 minutes at most. By default,
 * and so in gateways, a grpc-go server closes connections that ping more often than every five minutes.
 */
export const PINGS = { everyMs: 310_000, answerMs: 20_000 };
/** How long connecting may take. */
const CONNECT_MS_MAX = 20_000;
/** Sets up to this many times as long as the bound are received, and refused. */
const RECEIVED_PER_BYTE_MAX = 2;

type Duplex = ClientDuplexStream<Buffer, Buffer>;

/** One stream. Connecting begins in the constructor. */
export class AdsStream {
  readonly #plane: ControlPlane;
  readonly #listener: StreamListener;
  #client: Client | undefined;
  #call: Duplex | undefined;
  #connectTimer: NodeJS.Timeout | undefined;
  #isEnded = false;

  constructor(plane: ControlPlane, listener: StreamListener, pings = PINGS) {
    this.#plane = plane;
    this.#listener = listener;
    try {
      this.#begin(pings);
    } catch (cause) {
      // A certificate that can't be read, or an invalid target. Reported after the constructor, as every other end.
      const why = errorMessage(cause);
      setImmediate(() => this.#end(why));
    }
  }

  send(request: StreamRequest): void {
    this.#call?.write(requestBytes(request, this.#plane));
  }

  /** Ends the stream without calling the listener. */
  close(): void {
    this.#isEnded = true;
    clearTimeout(this.#connectTimer);
    this.#call?.cancel();
    this.#client?.close();
  }

  #begin(pings: typeof PINGS): void {
    const { url, headers } = this.#plane;
    const client = new Client(url, credentialsOf(this.#plane.tls), channelOptions(this.#plane, pings));
    this.#client = client;
    const metadata = new Metadata();
    for (const [key, value] of headers) metadata.add(key, value);
    const same = (bytes: Buffer): Buffer => bytes;
    const call: Duplex = client.makeBidiStreamRequest(PATH, same, same, metadata);
    this.#call = call;
    call.on("data", (bytes: Buffer) => {
      if (!this.#isEnded) this.#listener.message(bytes);
    });
    // An end without an error causes only the status event, an error causes both.
    call.on("error", (error) => this.#end(error.message));
    call.on("status", ({ code, details }) => this.#end(`the server ended the stream: ${details || `status ${code}`}`));
    this.#watchConnection(client);
  }

  #watchConnection(client: Client): void {
    const late = () => this.#end(`no connection within ${CONNECT_MS_MAX / 1_000} s`);
    this.#connectTimer = setTimeout(late, CONNECT_MS_MAX);
    client.waitForReady(Number.POSITIVE_INFINITY, (error) => {
      clearTimeout(this.#connectTimer);
      if (!this.#isEnded && !error) this.#listener.connected();
    });
  }

  #end(why: string): void {
    if (this.#isEnded) return;
    this.close();
    this.#listener.ended(why);
  }
}

function credentialsOf(tls: ControlPlaneTls | undefined): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure();
  const { caFile, certFile, keyFile } = tls;
  const read = (file: string | undefined) => (file === undefined ? null : readFileSync(file));
  return credentials.createSsl(read(caFile), read(keyFile), read(certFile));
}

function channelOptions({ bounds, tls }: ControlPlane, { everyMs, answerMs }: typeof PINGS): object {
  return {
    // What is not received can't be refused either: the stream ends.
    "grpc.max_receive_message_length": RECEIVED_PER_BYTE_MAX * bounds.messageBytesMax,
    "grpc.keepalive_time_ms": everyMs,
    "grpc.keepalive_timeout_ms": answerMs,
    "grpc.enable_retries": 0,
    "grpc.service_config_disable_resolution": 1,
    // A new channel must not wait for the connection backoff of an earlier one.
    "grpc.use_local_subchannel_pool": 1,
    ...(tls?.serverName === undefined
      ? {}
      : { "grpc.ssl_target_name_override": tls.serverName, "grpc.default_authority": tls.serverName }),
  };
}

const PATH = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
