// The servers of one client: a channel each, taken in turn, those out of reach passed over. Knows no rate limits.

import { type ChannelOptions, Client, connectivityState, credentials } from "@grpc/grpc-js";
import type { Clock } from "../core/clock.ts";

/** TLS towards the servers. `true`: with the public authorities. */
export interface TlsOptions {
  /** Authorities to trust, PEM; without them the public ones. */
  readonly ca?: string | Buffer;
  /** The client's own certificate and key, PEM: both or none. */
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  /** Name that the servers' certificates carry, where it is not the one they are called by. */
  readonly serverName?: string;
}

export interface RingOptions {
  readonly servers: readonly string[];
  readonly tls: TlsOptions | undefined;
  readonly keepaliveMs: number;
  readonly keepaliveTimeoutMs: number;
  readonly clock: Clock;
}

/** One entry of `servers`. */
export interface Server {
  readonly address: string;
  readonly client: Client;
  failuresInRow: number;
  /** Until then others go first; milliseconds of the clock. */
  restsUntilMs: number;
}

/** A server that fails this often in a row lets others go first ... */
const FAILURES_IN_ROW_MAX = 5;
/** ... for this long. It is never given up where there is no other. */
const REST_MS = 1_000;
const RECONNECT_MS_MIN = 100;
const RECONNECT_MS_MAX = 2_000;

/** Picks servers in turn. Connects to all of them at once, and again to those that were lost. */
export class ServerRing {
  readonly #servers: readonly Server[];
  readonly #clock: Clock;
  #next = 0;

  constructor(options: RingOptions) {
    this.#clock = options.clock;
    this.#servers = options.servers.map((address) => ({
      address,
      client: new Client(address, credentialsOf(options.tls), channelOptions(options)),
      failuresInRow: 0,
      restsUntilMs: 0,
    }));
    for (const { client } of this.#servers) client.getChannel().getConnectivityState(true);
  }

  /**
   * The next server that is connected. Waits while none is and some still may come to be: `late` when the deadline passed
   * over that, `away` when all are out of reach.
   */
  async pick(deadlineMs: number): Promise<Server | "late" | "away"> {
    for (;;) {
      const ready = this.#nextReady();
      if (ready !== undefined) return ready;
      const hopeful = this.#servers.filter((server) => isHopeful(server));
      if (hopeful.length === 0) return "away";
      const changed = await Promise.race(hopeful.map((server) => stateChange(server, deadlineMs)));
      if (!changed) return "late";
    }
  }

  answered(server: Server): void {
    server.failuresInRow = 0;
    server.restsUntilMs = 0;
  }

  failed(server: Server): void {
    server.failuresInRow++;
    if (server.failuresInRow >= FAILURES_IN_ROW_MAX) server.restsUntilMs = this.#nowMs() + REST_MS;
  }

  /** Calls under way may still end. */
  close(): void {
    for (const { client } of this.#servers) client.close();
  }

  // The first in turn that is ready and does not rest; a resting one if there is no other.
  #nextReady(): Server | undefined {
    const nowMs = this.#nowMs();
    let resting: number | undefined;
    for (let i = 0; i < this.#servers.length; i++) {
      const at = (this.#next + i) % this.#servers.length;
      const server = this.#servers[at] as Server;
      if (stateOf(server) !== connectivityState.READY) continue;
      if (server.restsUntilMs <= nowMs) return this.#turnTo(at);
      resting ??= at;
    }
    return resting === undefined ? undefined : this.#turnTo(resting);
  }

  #turnTo(at: number): Server {
    this.#next = (at + 1) % this.#servers.length;
    return this.#servers[at] as Server;
  }

  #nowMs(): number {
    return this.#clock.nowUs() / 1_000;
  }
}

// Asking is what makes an idle channel connect again.
function stateOf({ client }: Server): connectivityState {
  return client.getChannel().getConnectivityState(true);
}

function isHopeful(server: Server): boolean {
  const state = stateOf(server);
  return state === connectivityState.IDLE || state === connectivityState.CONNECTING;
}

/** True when the state has changed, false when the deadline passed first. */
function stateChange(server: Server, deadlineMs: number): Promise<boolean> {
  const channel = server.client.getChannel();
  return new Promise((resolve) => {
    channel.watchConnectivityState(channel.getConnectivityState(false), deadlineMs, (error) => resolve(!error));
  });
}

function credentialsOf(tls: TlsOptions | undefined) {
  if (tls === undefined) return credentials.createInsecure();
  const bytes = (pem: string | Buffer | undefined) => (pem === undefined ? null : Buffer.from(pem));
  return credentials.createSsl(bytes(tls.ca), bytes(tls.key), bytes(tls.cert));
}

// A name that stands for several addresses is spread over all of them. No call is sent twice: only a call that a server
// says it never began goes out again.
function channelOptions({ tls, keepaliveMs, keepaliveTimeoutMs }: RingOptions): ChannelOptions {
  return {
    "grpc.service_config": JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
    "grpc.service_config_disable_resolution": 1,
    "grpc.initial_reconnect_backoff_ms": RECONNECT_MS_MIN,
    "grpc.max_reconnect_backoff_ms": RECONNECT_MS_MAX,
    ...(keepaliveMs === 0 || !Number.isFinite(keepaliveMs)
      ? {}
      : {
          "grpc.keepalive_time_ms": keepaliveMs,
          "grpc.keepalive_timeout_ms": keepaliveTimeoutMs,
          "grpc.keepalive_permit_without_calls": 1,
        }),
    ...(tls?.serverName === undefined
      ? {}
      : { "grpc.ssl_target_name_override": tls.serverName, "grpc.default_authority": tls.serverName }),
  };
}
