// Envoy, an upstream, Redis and the built Headgate together, each a process or server of its own on a free port.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { RedisServer } from "../../support/redis-server.ts";
import { type ServiceProcess, startService } from "../../support/service-process.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { bootstrapText, type Config, cluster } from "./bootstrap.ts";
import { Caller } from "./caller.ts";
import { Envoy } from "./envoy-process.ts";
import { startUpstream, type Upstream } from "./upstream.ts";

export interface RigOptions {
  /** Text of the rule file. */
  readonly rules: string;
  readonly listeners: readonly Config[];
  /** Makes clusters in addition to `headgate` and `upstream`, with their servers. */
  readonly clusters?: (redis: RedisServer) => Promise<readonly Config[]>;
  /** Settings of Headgate. */
  readonly env?: Readonly<Record<string, string>>;
}

/** A whole set-up. */
export class Rig {
  readonly redis: RedisServer;
  readonly headgate: ServiceProcess;
  readonly upstream: Upstream;
  readonly envoy: Envoy;
  readonly #callers = new Map<string, Caller>();

  private constructor(parts: { redis: RedisServer; headgate: ServiceProcess; upstream: Upstream; envoy: Envoy }) {
    this.redis = parts.redis;
    this.headgate = parts.headgate;
    this.upstream = parts.upstream;
    this.envoy = parts.envoy;
  }

  static async start({ rules, listeners, clusters, env = {} }: RigOptions): Promise<Rig> {
    const redis = await RedisServer.start();
    const headgate = await startHeadgate(redis, rules, env);
    const upstream = await startUpstream();
    const envoy = await Envoy.start(
      bootstrapText({
        listeners,
        clusters: [
          cluster({ name: "headgate", endpoints: [headgate.grpcPort], http2: true }),
          cluster({ name: "upstream", endpoints: [upstream.port] }),
          ...((await clusters?.(redis)) ?? []),
        ],
      }),
    );
    return new Rig({ redis, headgate, upstream, envoy });
  }

  /** A caller in front of the listener. */
  caller(listener: string): Caller {
    let caller = this.#callers.get(listener);
    if (caller === undefined) {
      caller = new Caller(this.envoy.port(listener));
      this.#callers.set(listener, caller);
    }
    return caller;
  }
}

/** A directory that goes when the tests end. */
export function testDirectory(): string {
  return temporaryFolder("envoy");
}

/**
 * Starts Headgate on `redis` with these rules. The store gets more time than by default, so that a busy machine decides
 * as a quiet one does. GRPC_TRANSPORT of the test run picks the transport, so that the suite can be run with each.
 */
export function startHeadgate(
  redis: RedisServer,
  rules: string,
  env: Readonly<Record<string, string>> = {},
): Promise<ServiceProcess> {
  const directory = testDirectory();
  writeFileSync(join(directory, "rules.yaml"), rules);
  const transport = process.env.GRPC_TRANSPORT;
  return startService({
    RULES_DIR: directory,
    REDIS_URL: `127.0.0.1:${redis.port}`,
    STORE_DEADLINE: "500ms",
    ...(transport === undefined ? {} : { GRPC_TRANSPORT: transport }),
    ...env,
  });
}
