// deploy/envoy/llm.yaml in a real Envoy, before a model of the tests, asking a rate limit service of theirs.

import { readFileSync } from "node:fs";
import { request } from "node:http";
import { resolve } from "node:path";
import { Envoy } from "./envoy-process.ts";
import type { ModelAnswer } from "./model-upstream.ts";

const SHIPPED = resolve(import.meta.dirname, "../../../deploy/envoy/llm.yaml");
const OTHER = "- { key: other-key, client: other }";

export interface LlmEnvoyOptions {
  /** Ports. */
  readonly model: number;
  readonly headgate: number;
  /** Callers in addition to those of the shipped configuration; the key of NAME is NAME-key. */
  readonly tenants?: readonly string[];
  /** Makes another configuration of it. */
  readonly edit?: (config: string) => string;
}

/** Starts it on free ports. */
export function startLlmEnvoy({
  model,
  headgate,
  tenants = [],
  edit = (config) => config,
}: LlmEnvoyOptions): Promise<Envoy> {
  const changes = [
    ["port_value: 9901", "port_value: 0"],
    ["port_value: 10000", "port_value: 0"],
    ["port_value: 10001", "port_value: 0"], // of the listener; the cluster's stands further down
    ["port_value: 10001", `port_value: ${model}`],
    ["port_value: 8081", `port_value: ${headgate}`],
    // What a busy machine can't answer within 50 ms would pass unasked.
    ["timeout: 0.05s", "timeout: 10s"],
    ["failure_mode_deny: false", "failure_mode_deny: true"],
    [OTHER, [OTHER, ...tenants.map((name) => OTHER.replaceAll("other", name))].join("\n                        ")],
  ] as const;
  let text = readFileSync(SHIPPED, "utf8");
  for (const [shipped, ours] of changes) {
    if (!text.includes(shipped)) throw new Error(`${SHIPPED} has no ${shipped}`);
    text = text.replace(shipped, ours);
  }
  return Envoy.start(edit(text));
}

export interface ModelCall {
  /** Whose key it shows. */
  readonly tenant?: string;
  readonly answer?: ModelAnswer;
  /** What the model says that it has used. */
  readonly used?: number;
  readonly body?: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A call to the model that may be under way. */
export class Stream {
  /** The status, as soon as it is there; 0 if the connection ends without one. */
  readonly status: Promise<number>;
  /** Resolves when nothing more comes, for whatever reason. */
  readonly ended: Promise<void>;
  /** Leaves it. */
  readonly leave: () => void;

  /** `envoy` says on which port it listens. */
  constructor(
    envoy: Pick<Envoy, "port">,
    { tenant = "acme", answer = "json", used, body = "{}", method = "POST", headers = {} }: ModelCall,
  ) {
    const sent = request({
      host: "127.0.0.1",
      port: envoy.port("llm"),
      method,
      agent: false,
      headers: {
        authorization: `Bearer ${tenant}-key`,
        "content-type": "application/json",
        "x-do": answer,
        ...(used === undefined ? {} : { "x-used": String(used) }),
        ...headers,
      },
    });
    this.leave = () => sent.destroy();
    this.status = new Promise((resolve) => {
      sent.on("response", (response) => {
        resolve(response.statusCode ?? 0);
        response.on("error", () => undefined);
        response.resume();
      });
      sent.on("close", () => resolve(0));
    });
    this.ended = new Promise((resolve) => sent.on("close", resolve));
    sent.on("error", () => undefined);
    sent.end(body);
  }
}
