// Resources of the gateway's API, written short.

export interface Resource {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: object;
}

const NAMESPACE = "envoy-gateway-system";
const GATEWAY_API = "gateway.networking.k8s.io";
const EXTENSIONS = "gateway.envoyproxy.io";

/** Documents of a YAML file; JSON is YAML, too. */
export function yamlOf(documents: readonly Resource[]): string {
  return documents.map((document) => `${JSON.stringify(document)}\n`).join("---\n");
}

/** The Gateway of the test bed, with a listener on each port. Who calls is told by the last address of X-Forwarded-For. */
export function gateway(ports: readonly number[]): readonly Resource[] {
  const listeners = ports.map((port, index) => ({ name: `http-${index}`, protocol: "HTTP", port }));
  return [
    own(`${GATEWAY_API}/v1`, "Gateway", "eg", { gatewayClassName: "eg", listeners }),
    own(`${EXTENSIONS}/v1alpha1`, "ClientTrafficPolicy", "addresses", {
      targetRefs: [{ group: GATEWAY_API, kind: "Gateway", name: "eg" }],
      clientIPDetection: { xForwardedFor: { numTrustedHops: 1 } },
    }),
  ];
}

/** A route of all requests to the host `<name>.test`, to the upstream. */
export function route(name: string): Resource {
  return own(`${GATEWAY_API}/v1`, "HTTPRoute", name, {
    parentRefs: [{ name: "eg" }],
    hostnames: [`${name}.test`],
    rules: [
      {
        matches: [{ path: { type: "PathPrefix", value: "/" } }],
        backendRefs: [{ group: EXTENSIONS, kind: "Backend", name: "upstream" }],
      },
    ],
  });
}

/** A backend on this machine. */
export function backend(name: string, port: number): Resource {
  return own(`${EXTENSIONS}/v1alpha1`, "Backend", name, { endpoints: [{ ip: { address: "127.0.0.1", port } }] });
}

/** Limits for these routes; a rule is one of BackendTrafficPolicy's. */
export function limits(name: string, rules: readonly object[], routes: readonly string[] = [name]): Resource {
  return own(`${EXTENSIONS}/v1alpha1`, "BackendTrafficPolicy", name, {
    targetRefs: routes.map((each) => ({ group: GATEWAY_API, kind: "HTTPRoute", name: each })),
    rateLimit: { type: "Global", global: { rules } },
  });
}

/** A filter in Lua on a route, as other filters of a gateway that leave metadata. */
export function lua(name: string, inline: string): Resource {
  return own(`${EXTENSIONS}/v1alpha1`, "EnvoyExtensionPolicy", name, {
    targetRefs: [{ group: GATEWAY_API, kind: "HTTPRoute", name }],
    lua: [{ type: "Inline", inline }],
  });
}

function own(apiVersion: string, kind: string, name: string, spec: object): Resource {
  return { apiVersion, kind, metadata: { name, namespace: NAMESPACE }, spec };
}
