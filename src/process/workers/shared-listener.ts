// The addresses that a process listens on. With several workers the main thread listens: accepts connections and passes them on unread.

import { createServer, type Server, type Socket } from "node:net";
import { cannotListen, listenTrouble } from "../../engine/base/cannot-listen.ts";
import type { ConfigError } from "../../engine/base/errors.ts";
import type { Logger } from "../../operate/telemetry/logger.ts";
import type { Settings } from "../settings.ts";
import type { ListenerName } from "./messages.ts";

/** Connections that may wait to be accepted; the system may allow fewer (net.core.somaxconn). */
const BACKLOG = 1_024;

/** The variables that set the address of a listener. */
const VARIABLES = {
  grpc: "GRPC_HOST and GRPC_PORT",
  http: "HOST and PORT",
  debug: "DEBUG_PORT",
  metrics: "PROMETHEUS_ADDR",
} as const;

interface Address {
  readonly host: string;
  readonly port: number;
}

/** The address of a listener; undefined if the settings want none. */
export function addressOf(name: ListenerName, settings: Settings): Address | undefined {
  const { grpcHost, grpcPort, httpHost, httpPort, debugHost, debugPort } = settings;
  if (name === "grpc") return { host: grpcHost, port: grpcPort };
  if (name === "http") return { host: httpHost, port: httpPort };
  if (name === "metrics") return settings.prometheusAddress;
  return debugPort === undefined ? undefined : { host: debugHost, port: debugPort };
}

/** The error of an address that can't be listened on. */
export function listenError(name: ListenerName, address: Address, error: Error): ConfigError {
  return cannotListen(name === "grpc" ? "gRPC" : "HTTP", shownAddress(address), VARIABLES[name], error);
}

/** Throws that error for the HTTP port. Calls don't need the pages of the others: that is logged, and the process goes on without it. */
export function goOnWithout(name: ListenerName, address: Address, error: unknown, logger: Logger): void {
  if (!(error instanceof Error)) throw error;
  if (name === "http") throw listenError(name, address, error);
  logger.error(
    { variable: VARIABLES[name], where: shownAddress(address), reason: listenTrouble(error) },
    "can't open an optional port; continuing without it",
  );
}

function shownAddress({ host, port }: Address): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

export class SharedListener {
  readonly address: Address;
  readonly #server: Server;
  #port: Promise<number> | undefined;

  /** `give` gets each socket, and must pass it on or destroy it. */
  constructor(address: Address, give: (socket: Socket) => void) {
    this.address = address;
    // Paused, because the worker has to read everything that the caller sends.
    this.#server = createServer({ pauseOnConnect: true }, give);
  }

  /** Listens; resolves to the port. A second call gets the same promise. Rejects with the system's error. */
  open(): Promise<number> {
    this.#port ??= new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ ...this.address, backlog: BACKLOG }, () => {
        this.#server.off("error", reject);
        // Accepting may fail, as without free file descriptors; the server tries again with the next connection.
        this.#server.on("error", () => undefined);
        const address = this.#server.address();
        resolve(address !== null && typeof address === "object" ? address.port : 0);
      });
    });
    return this.#port;
  }

  close(): void {
    this.#server.close();
  }
}
