// Builds Envoy's bootstrap from the parts that tests differ in: listeners with their routes and their rate limit filter,
// and the clusters behind them.

/** A piece of Envoy's configuration in proto field names. */
export type Config = Readonly<Record<string, unknown>>;

const TYPE = "type.googleapis.com/";
const HTTP = `${TYPE}envoy.extensions.filters.http`;

export interface ListenerOptions {
  /** Also the name of its port, see Envoy.port. */
  readonly name: string;
  readonly routes: readonly Config[];
  /** The cluster that is asked. Default: headgate. */
  readonly asks?: string;
  /** Fields of the rate limit filter that differ from `domain: edge`, a second to answer and failure_mode_deny. */
  readonly filter?: Config;
  /** HTTP filters before the rate limit filter. */
  readonly before?: readonly Config[];
  /** HTTP filters between the rate limit filter and the router. */
  readonly after?: readonly Config[];
  /** The cluster of a collector that requests' spans go to, all of them. Default: nobody is traced. */
  readonly tracesTo?: string;
}

/** How a route is limited: the filter's own rate_limits, with whatever else RateLimitPerRoute takes. */
export interface RouteOptions {
  readonly prefix: string;
  readonly rateLimits: readonly Config[];
  readonly cluster?: string;
  readonly domain?: string;
}

export interface Bootstrap {
  readonly listeners: readonly Config[];
  readonly clusters: readonly Config[];
}

/** The text that Envoy starts with. */
export function bootstrapText({ listeners, clusters }: Bootstrap): string {
  return JSON.stringify({
    node: { id: "edge-1", cluster: "edge" },
    admin: { address: loopback(0) },
    static_resources: { listeners, clusters },
  });
}

/** A route of its own limits. They stand in the filter's per-route message, the only place where hits_addend is read. */
export function route({ prefix, rateLimits, cluster = "upstream", domain }: RouteOptions): Config {
  return {
    match: { prefix },
    route: { cluster },
    typed_per_filter_config: {
      "envoy.filters.http.ratelimit": {
        "@type": `${HTTP}.ratelimit.v3.RateLimitPerRoute`,
        rate_limits: rateLimits,
        ...(domain === undefined ? {} : { domain }),
      },
    },
  };
}

/** A descriptor's entry from a request header. The whole descriptor is left out if the header is missing, unless `optional`. */
export function fromHeader(header: string, key: string, optional = false): Config {
  return { request_headers: { header_name: header, descriptor_key: key, skip_if_absent: optional } };
}

/** A descriptor's entry that is always the same. */
export function fixed(key: string, value: string): Config {
  return { generic_key: { descriptor_key: key, descriptor_value: value } };
}

export function listener(options: ListenerOptions): Config {
  const { name, routes, before = [], after = [], tracesTo } = options;
  const manager = {
    "@type": `${TYPE}envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: name,
    use_remote_address: true,
    access_log: [accessLog()],
    route_config: { name, virtual_hosts: [{ name, domains: ["*"], routes }] },
    http_filters: [...before, rateLimitFilter(options), ...after, httpFilter("router", {}, "router.v3.Router")],
    ...(tracesTo === undefined ? {} : { tracing: tracingTo(tracesTo) }),
  };
  const filter = { name: "envoy.filters.network.http_connection_manager", typed_config: manager };
  return { name, address: loopback(0), filter_chains: [{ filters: [filter] }] };
}

/** Another HTTP filter, by its short name and its message below envoy.extensions.filters.http. */
export function httpFilter(name: string, fields: Config, message: string): Config {
  return { name: `envoy.filters.http.${name}`, typed_config: { "@type": `${HTTP}.${message}`, ...fields } };
}

function rateLimitFilter({ asks = "headgate", filter = {} }: ListenerOptions): Config {
  const fields = {
    domain: "edge",
    // Generous: most tests ask what the decision is, not how soon it comes.
    timeout: "1s",
    // A call that fails must not look like one that was allowed.
    failure_mode_deny: true,
    rate_limited_as_resource_exhausted: true,
    rate_limit_service: { transport_api_version: "V3", grpc_service: { envoy_grpc: { cluster_name: asks } } },
    ...filter,
  };
  return httpFilter("ratelimit", fields, "ratelimit.v3.RateLimit");
}

function tracingTo(cluster: string): Config {
  const config = {
    "@type": `${TYPE}envoy.config.trace.v3.OpenTelemetryConfig`,
    service_name: "envoy",
    grpc_service: { envoy_grpc: { cluster_name: cluster } },
  };
  return { provider: { name: "envoy.tracers.opentelemetry", typed_config: config } };
}

function accessLog(): Config {
  const metadata = (field: string) => `%DYNAMIC_METADATA(envoy.filters.http.ratelimit:${field})%`;
  return {
    name: "envoy.access_loggers.file",
    typed_config: {
      "@type": `${TYPE}envoy.extensions.access_loggers.file.v3.FileAccessLog`,
      path: "ACCESS_LOG",
      log_format: {
        json_format: {
          path: "%REQ(:PATH)%",
          status: "%RESPONSE_CODE%",
          flags: "%RESPONSE_FLAGS%",
          details: "%RESPONSE_CODE_DETAILS%",
          trace_id: "%TRACE_ID%",
          rule: metadata("rule"),
          code: metadata("code"),
          remaining: metadata("remaining"),
          reset_seconds: metadata("reset_seconds"),
          reason: metadata("reason"),
          source: metadata("source"),
          degraded: metadata("degraded"),
          headgate: "%DYNAMIC_METADATA(envoy.filters.http.ratelimit)%",
        },
      },
    },
  };
}

export interface ClusterOptions {
  readonly name: string;
  /** Ports of the loopback, or paths of Unix sockets. */
  readonly endpoints: readonly (number | string)[];
  readonly http2?: boolean;
  /** Fields of http2_protocol_options. */
  readonly http2Options?: Config;
  /** Other fields of the cluster. */
  readonly more?: Config;
}

export function cluster({ name, endpoints, http2 = false, http2Options = {}, more = {} }: ClusterOptions): Config {
  const protocol = {
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
      "@type": `${TYPE}envoy.extensions.upstreams.http.v3.HttpProtocolOptions`,
      explicit_http_config: { http2_protocol_options: http2Options },
    },
  };
  return {
    name,
    type: "STATIC",
    connect_timeout: "0.25s",
    load_assignment: {
      cluster_name: name,
      endpoints: [{ lb_endpoints: endpoints.map((at) => ({ endpoint: { address: addressOf(at) } })) }],
    },
    ...(http2 ? { typed_extension_protocol_options: protocol } : {}),
    ...more,
  };
}

/** TLS towards a cluster whose server must show a certificate for `serverName` from `caFile`. */
export function upstreamTls(options: {
  readonly caFile: string;
  readonly serverName: string;
  readonly client?: { readonly certFile: string; readonly keyFile: string };
}): Config {
  const { caFile, serverName, client } = options;
  const context = {
    validation_context: {
      trusted_ca: { filename: caFile },
      match_typed_subject_alt_names: [{ san_type: "DNS", matcher: { exact: serverName } }],
    },
    ...(client === undefined
      ? {}
      : {
          tls_certificates: [
            { certificate_chain: { filename: client.certFile }, private_key: { filename: client.keyFile } },
          ],
        }),
  };
  return {
    transport_socket: {
      name: "envoy.transport_sockets.tls",
      typed_config: {
        "@type": `${TYPE}envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext`,
        sni: serverName,
        common_tls_context: context,
      },
    },
  };
}

function addressOf(at: number | string): Config {
  return typeof at === "number" ? loopback(at) : { pipe: { path: at } };
}

function loopback(port: number): Config {
  return { socket_address: { address: "127.0.0.1", port_value: port } };
}

/** Everything in a configuration that stands under the key, however deep. */
export function valuesOf(key: string, within: unknown): unknown[] {
  if (Array.isArray(within)) return within.flatMap((item) => valuesOf(key, item));
  if (typeof within !== "object" || within === null) return [];
  return Object.entries(within).flatMap(([name, value]) => (name === key ? [value] : valuesOf(key, value)));
}
