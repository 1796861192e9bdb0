// What the test bed tells the gateway beside the resources it is given: its own configuration, and that this machine is no
// cluster: which Envoy to start, where the upstream and the rate limit service are, and the certificate that Envoy shows there.

import { readFileSync } from "node:fs";
import { join } from "node:path";

const NAMESPACE = "envoy-gateway-system";

/** The configuration of Envoy Gateway as YAML (JSON is YAML, too). Calls that fail are seen: they are refused, not passed. */
export function gatewayConfiguration({ home, paths }) {
  const host = { configHome: home, dataHome: home, stateHome: join(home, "state"), runtimeDir: join(home, "run") };
  return JSON.stringify({
    apiVersion: "gateway.envoyproxy.io/v1alpha1",
    kind: "EnvoyGateway",
    gateway: { controllerName: "gateway.envoyproxy.io/gatewayclass-controller" },
    provider: {
      type: "Custom",
      custom: {
        resource: { type: "File", file: { paths } },
        infrastructure: { type: "Host", host },
      },
    },
    extensionApis: { enableBackend: true, enableEnvoyPatchPolicy: true, enableLua: true },
    rateLimit: {
      // A busy machine decides as a quiet one does.
      timeout: "2s",
      failClosed: true,
      // Wanted by the gateway, used by nobody.
      backend: { type: "Redis", redis: { url: "redis://127.0.0.1:6379" } },
    },
  });
}

/** The test bed's own resources, as documents of a YAML file. */
export function bedResources({ home, envoyVersion, upstream, grpc }) {
  const inNamespace = (name) => ({ name, namespace: NAMESPACE });
  const documents = [
    {
      apiVersion: "gateway.networking.k8s.io/v1",
      kind: "GatewayClass",
      metadata: { name: "eg" },
      spec: {
        controllerName: "gateway.envoyproxy.io/gatewayclass-controller",
        parametersRef: { group: "gateway.envoyproxy.io", kind: "EnvoyProxy", ...inNamespace("host") },
      },
    },
    {
      apiVersion: "gateway.envoyproxy.io/v1alpha1",
      kind: "EnvoyProxy",
      metadata: inNamespace("host"),
      spec: { provider: { type: "Host", host: { envoyVersion } } },
    },
    {
      apiVersion: "gateway.envoyproxy.io/v1alpha1",
      kind: "Backend",
      metadata: inNamespace("upstream"),
      spec: { endpoints: [{ ip: { address: "127.0.0.1", port: upstream } }] },
    },
    clientCertificate(join(home, "certs/envoy")),
    whereHeadgateIs(join(home, "certs/envoy-rate-limit/ca.crt"), grpc),
  ];
  return documents.map((document) => JSON.stringify(document)).join("\n---\n");
}

/** What `certgen` puts into the cluster: without it Envoy gets no cluster for the rate limit service. */
function clientCertificate(folder) {
  const data = ["ca.crt", "tls.crt", "tls.key"].map((name) => [
    name,
    readFileSync(join(folder, name)).toString("base64"),
  ]);
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "envoy", namespace: NAMESPACE },
    type: "kubernetes.io/tls",
    data: Object.fromEntries(data),
  };
}

/** In a cluster that is a Service's name, and a file that is mounted into Envoy's container. */
function whereHeadgateIs(caFile, port) {
  const replace = (path, value) => ({
    type: "type.googleapis.com/envoy.config.cluster.v3.Cluster",
    name: "ratelimit_cluster",
    operation: { op: "replace", path, value },
  });
  const socket = "/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address";
  const authority = "/transport_socket/typed_config/common_tls_context/validation_context/trusted_ca/filename";
  return {
    apiVersion: "gateway.envoyproxy.io/v1alpha1",
    kind: "EnvoyPatchPolicy",
    metadata: { name: "headgate-is-here", namespace: NAMESPACE },
    spec: {
      targetRef: { group: "gateway.networking.k8s.io", kind: "Gateway", name: "eg" },
      type: "JSONPatch",
      jsonPatches: [replace(socket, { address: "127.0.0.1", port_value: port }), replace(authority, caFile)],
    },
  };
}
