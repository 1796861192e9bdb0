// The servers of one client: a channel for each, used in turn; skips servers out of reach. Knows nothing of rate
// limits.

import { type ChannelOptions, Client, connectivityState, credentials } from "@grpc/grpc-js";
import { describeValue } from "./misuse.ts";
import type { CompleteOptions, TlsOptions } from "./options.ts";

type RingOptions = Pick<CompleteOptions, "servers" | "tls" | "keepaliveMs">;

/** An entry of `servers`. */
export interface Server {
  readonly address: string;
  readonly client: Client;
  failuresInRow: number;
  /** Until then other servers are preferred; milliseconds since the epoch. */
  restsUntilMs: number;
}

/** Addresses of the server that is asked first, and of the one that is asked only if there is no other. */
export interface Preference {
  readonly first?: string | undefined;
  readonly avoided?: string | undefined;
}

/**
 * Consecutive failures after which other servers are preferred. If there is no other, the server is used all the same.
 */
const FAILURES_IN_ROW_MAX = 5;
/** How long other servers are preferred. */
const REST_MS = 1_000;
/** How long a call waits for the server that it should go to, if that has just lost its connection. */
const RECONNECT_MS_WAITED = 200;
/** Longest time for the answer to a ping. */
const PING_MS_MAX = 5_000;
const RECONNECT_MS_MIN = 100;
const RECONNECT_MS_MAX = 2_000;

/** Picks servers in turn. Connects to all of them at once, and reconnects those that were lost. */
export class ServerRing {
  readonly #servers: readonly Server[];
  #next = 0;
  isClosed = false;

  /** Throws TypeError for an invalid address or certificate. */
  constructor(options: RingOptions) {
    this.#servers = options.servers.map((address) => ({
      address,
      client: openClient(address, options),
      failuresInRow: 0,
      restsUntilMs: 0,
    }));
    for (const { client } of this.#servers) client.getChannel().getConnectivityState(true);
  }

  /** Number of servers. */
  get size(): number {
    return this.#servers.length;
  }

  /**
   * The next connected server: `first`, if it is connected or is again within RECONNECT_MS_WAITED, else one that is not
   * `avoided`, if there is one. If none is connected, waits while one may still connect; if none may, any: a call to it
   * fails at once, and says why. Undefined if `deadlineMs` (since the epoch) passes meanwhile.
   */
  async pick(deadlineMs: number, { first, avoided }: Preference = {}): Promise<Server | undefined> {
    for (;;) {
      const ready = (await this.#whenReady(first, deadlineMs)) ?? this.#nextReady(avoided);
      if (ready !== undefined) return ready;
      const hopeful = this.#servers.filter((server) => isHopeful(server));
      if (hopeful.length === 0) return this.#turnTo(this.#next);
      const changed = await Promise.race(hopeful.map((server) => stateChange(server, deadlineMs)));
      if (!changed) return undefined;
    }
  }

  // The preferred server, if it is connected, or is again within RECONNECT_MS_WAITED.
  async #whenReady(address: string | undefined, deadlineMs: number): Promise<Server | undefined> {
    const server = this.#servers.find((each) => each.address === address);
    if (server === undefined) return undefined;
    const untilMs = Math.min(deadlineMs, Date.now() + RECONNECT_MS_WAITED);
    while (!isReady(server) && isHopeful(server)) {
      if (!(await stateChange(server, untilMs))) break;
    }
    return isReady(server) ? server : undefined;
  }

  answered(server: Server): void {
    server.failuresInRow = 0;
    server.restsUntilMs = 0;
  }

  failed(server: Server): void {
    server.failuresInRow++;
    if (server.failuresInRow >= FAILURES_IN_ROW_MAX) server.restsUntilMs = Date.now() + REST_MS;
  }

  /** Closes all channels. Calls under way may still end. */
  close(): void {
    this.isClosed = true;
    for (const { client } of this.#servers) client.close();
  }

  // The next ready server that does not rest and is not to be avoided; one of these if there is no other.
  #nextReady(avoided: string | undefined): Server | undefined {
    const nowMs = Date.now();
    let last: number | undefined;
    for (let i = 0; i < this.#servers.length; i++) {
      const at = (this.#next + i) % this.#servers.length;
      const server = this.#servers[at] as Server;
      if (!isReady(server)) continue;
      if (server.restsUntilMs <= nowMs && server.address !== avoided) return this.#turnTo(at);
      last ??= at;
    }
    return last === undefined ? undefined : this.#turnTo(last);
  }

  #turnTo(at: number): Server {
    this.#next = (at + 1) % this.#servers.length;
    return this.#servers[at] as Server;
  }
}

// `true` makes an idle channel connect.
function stateOf({ client }: Server): connectivityState {
  return client.getChannel().getConnectivityState(true);
}

function isReady(server: Server): boolean {
  return stateOf(server) === connectivityState.READY;
}

function isHopeful(server: Server): boolean {
  const state = stateOf(server);
  return state === connectivityState.IDLE || state === connectivityState.CONNECTING;
}

/** Resolves to true when the state has changed, to false when the deadline has passed. */
function stateChange(server: Server, deadlineMs: number): Promise<boolean> {
  const channel = server.client.getChannel();
  return new Promise((resolve) => {
    channel.watchConnectivityState(channel.getConnectivityState(false), deadlineMs, (error) => resolve(!error));
  });
}

function openClient(address: string, options: RingOptions): Client {
  const secure = credentialsOf(options.tls);
  try {
    return new Client(address, secure, channelOptions(options));
  } catch (cause) {
    throw new TypeError(`servers: expected host:port, got ${describeValue(address)}`, { cause });
  }
}

function credentialsOf(tls: TlsOptions | undefined) {
  if (tls === undefined) return credentials.createInsecure();
  const bytes = (pem: string | Uint8Array | undefined) => (pem === undefined ? null : Buffer.from(pem));
  try {
    return credentials.createSsl(bytes(tls.ca), bytes(tls.key), bytes(tls.cert));
  } catch (cause) {
    throw new TypeError(`tls: expected PEM of ca, or of cert and key together: ${String(cause)}`, { cause });
  }
}

// A name with several addresses is spread over all of them. grpc-js by itself repeats only calls that no server has
// begun. It ignores a time of 0 and an empty name.
function channelOptions({ tls, keepaliveMs }: RingOptions): ChannelOptions {
  return {
    "grpc.service_config": JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
    "grpc.service_config_disable_resolution": 1,
    "grpc.initial_reconnect_backoff_ms": RECONNECT_MS_MIN,
    "grpc.max_reconnect_backoff_ms": RECONNECT_MS_MAX,
    "grpc.keepalive_time_ms": keepaliveMs,
    "grpc.keepalive_timeout_ms": PING_MS_MAX,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.ssl_target_name_override": tls?.serverName ?? "",
    "grpc.default_authority": tls?.serverName ?? "",
  };
}
