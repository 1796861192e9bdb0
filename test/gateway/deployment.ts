// What Envoy Gateway 1.5 to 1.9 gives the rate limit service that it deploys: every variable, port, probe and file. The same
// in all of these versions, but that 1.9 may take REDIS_URL from a Secret and declares the port of metrics.

/** Variables whose values do not depend on the gateway's own configuration. */
export const ALWAYS: Readonly<Record<string, string>> = {
  RUNTIME_ROOT: "/data",
  RUNTIME_SUBDIRECTORY: "ratelimit",
  RUNTIME_IGNOREDOTFILES: "true",
  RUNTIME_WATCH_ROOT: "false",
  LOG_LEVEL: "info",
  USE_STATSD: "false",
  CONFIG_TYPE: "GRPC_XDS_SOTW",
  CONFIG_GRPC_XDS_SERVER_URL: "envoy-gateway:18001",
  CONFIG_GRPC_XDS_NODE_ID: "envoy-ratelimit",
  GRPC_SERVER_USE_TLS: "true",
  GRPC_SERVER_TLS_CERT: "/certs/tls.crt",
  GRPC_SERVER_TLS_KEY: "/certs/tls.key",
  GRPC_SERVER_TLS_CA_CERT: "/certs/ca.crt",
  CONFIG_GRPC_XDS_SERVER_USE_TLS: "true",
  CONFIG_GRPC_XDS_CLIENT_TLS_CERT: "/certs/tls.crt",
  CONFIG_GRPC_XDS_CLIENT_TLS_KEY: "/certs/tls.key",
  CONFIG_GRPC_XDS_SERVER_TLS_CACERT: "/certs/ca.crt",
  FORCE_START_WITHOUT_INITIAL_CONFIG: "true",
  REDIS_SOCKET_TYPE: "tcp",
  REDIS_URL: "redis.redis-system.svc.cluster.local:6379",
};

/** With `rateLimit.telemetry.metrics`, which is on unless it is turned off. */
export const METRICS: Readonly<Record<string, string>> = {
  USE_PROMETHEUS: "true",
  PROMETHEUS_ADDR: ":19001",
  PROMETHEUS_MAPPER_YAML: "/etc/statsd-exporter/conf.yaml",
};

/** With `rateLimit.telemetry.tracing`. */
export const TRACING: Readonly<Record<string, string>> = {
  TRACING_ENABLED: "true",
  TRACING_SERVICE_NAME: "envoy-ratelimit",
  TRACING_SERVICE_NAMESPACE: "envoy-gateway-system",
  TRACING_SERVICE_INSTANCE_ID: "envoy-ratelimit-5c8f",
  TRACING_SAMPLING_RATE: "0.6",
  OTEL_EXPORTER_OTLP_ENDPOINT: "http://trace-collector.envoy-gateway-system.svc.cluster.local:4318",
};

/** With `rateLimit.backend.redis.tls` and its `certificateRef`. */
export const REDIS_TLS: Readonly<Record<string, string>> = {
  REDIS_TLS: "true",
  REDIS_TLS_CLIENT_CERT: "/redis-certs/tls.crt",
  REDIS_TLS_CLIENT_KEY: "/redis-certs/tls.key",
};

/** Ports that are declared or asked without a variable that sets them; `egctl config envoy-ratelimit` asks the last one. */
export const PORTS = { grpc: 8081, http: 8080, debug: 6070 } as const;

/** What startup, readiness and liveness probe ask on the HTTP port. */
export const PROBE = "/healthcheck";

/** What is started, and what a manifest of Envoy AI Gateway's own tests passes to it. */
export const COMMAND = "/bin/ratelimit";
export const STRAY_FLAG = "--quotaRateLimitServiceAddr=envoy-ai-gateway-ratelimit:8081";
