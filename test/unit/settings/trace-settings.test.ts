// Settings of traces: who asks for them, which variable wins, and what is refused once they are asked for and not before.

import { describe, expect, test } from "vitest";
import { describeSettings, type Environment, readSettings, secretsOf } from "../../../src/settings/settings.ts";
import { expectRefused, mistakesOf } from "../../support/settings-read.ts";

const ON = { TRACING_ENABLED: "true" };
const traced = (env: Environment) => readSettings({ ...ON, ...env }).traces;

describe("traces are asked for", () => {
  test.each<[Environment, boolean]>([
    [{}, false],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" }, false],
    [{ TRACING_ENABLED: "true" }, true],
    [{ TRACING_ENABLED: "false", OTEL_TRACES_EXPORTER: "otlp" }, false],
    [{ OTEL_TRACES_EXPORTER: "otlp" }, true],
    [{ OTEL_TRACES_EXPORTER: "none" }, false],
  ])("by %o: %s", (env, asked) => {
    expect(readSettings(env).traces !== undefined).toBe(asked);
  });

  test("by the reference's variables alone as it does", () => {
    expect(traced({ TRACING_SERVICE_NAMESPACE: "edge", TRACING_SAMPLING_RATE: "0.25" })).toMatchObject({
      protocol: "http/protobuf",
      url: "http://localhost:4318/v1/traces",
      samplingRate: 0.25,
      resource: { "service.name": "headgate", "service.namespace": "edge" },
    });
    expect(traced({ TRACING_EXPORTER_PROTOCOL: "grpc" })).toMatchObject({
      protocol: "grpc",
      url: "http://localhost:4317",
    });
  });
});

test.each([
  { env: { OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318" }, url: "http://c:4318/v1/traces" },
  { env: { OTEL_EXPORTER_OTLP_ENDPOINT: "https://c/otlp/" }, url: "https://c/otlp/v1/traces" },
  { env: { OTEL_EXPORTER_OTLP_PROTOCOL: "grpc", OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4317" }, url: "http://c:4317" },
])("spans go to $url by $env", ({ env, url }) => {
  expect(traced(env)?.url).toBe(url);
});

test("OpenTelemetry's variables win over the reference's", () => {
  const env = {
    TRACING_EXPORTER_PROTOCOL: "grpc",
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
    TRACING_SAMPLING_RATE: "0.5",
    OTEL_TRACES_SAMPLER_ARG: "0.125",
    TRACING_SERVICE_NAME: "limits",
    OTEL_SERVICE_NAME: "gate",
    OTEL_RESOURCE_ATTRIBUTES: "service.name=x",
  };
  expect(traced(env)).toMatchObject({
    protocol: "http/protobuf",
    samplingRate: 0.125,
    resource: { "service.name": "gate" },
  });
  expect(traced({ OTEL_RESOURCE_ATTRIBUTES: "service.name=x" })?.resource).toEqual({ "service.name": "x" });
});

describe("what can't be used", () => {
  const WRONG = {
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318",
    OTEL_EXPORTER_OTLP_HEADERS: "no equals sign",
    OTEL_RESOURCE_ATTRIBUTES: "zone=%zz",
    OTEL_TRACES_SAMPLER_ARG: "sometimes",
    OTEL_EXPORTER_OTLP_CERTIFICATE: "/nowhere/ca.pem",
    OTEL_EXPORTER_OTLP_CLIENT_KEY: import.meta.filename,
  };

  test("is named, all of it at once, once traces are asked for", () => {
    const named = mistakesOf({ ...ON, ...WRONG }).map((line) => line.split(/[:,]/)[0]);
    const { OTEL_EXPORTER_OTLP_CLIENT_KEY: _, ...others } = WRONG;
    expect(named.toSorted()).toEqual([...Object.keys(others), "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"].toSorted());
  });

  test("is ignored before: a platform gives such variables to every process", () => {
    const { traces, warnings } = readSettings({
      ...WRONG,
      OTEL_METRICS_EXPORTER: "otlp",
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "x",
    });
    expect(traces).toBeUndefined();
    expect(warnings).toEqual([]);
  });

  test.each<[Environment, RegExp]>([
    [{ OTEL_TRACES_EXPORTER: "zipkin" }, /OTEL_TRACES_EXPORTER: expected true or otlp, false or none, got "zipkin"/],
    [{ ...ON, OTEL_TRACES_SAMPLER_ARG: "1.5" }, /OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1/],
    [{ ...ON, OTEL_EXPORTER_OTLP_HEADERS: "a b=1" }, /OTEL_EXPORTER_OTLP_HEADERS: expected names of headers/],
    [{ ...ON, OTEL_EXPORTER_OTLP_HEADERS: "a=%0Ab" }, /OTLP_HEADERS: expected names .* in ASCII, .* got something/],
    [{ ...ON, TRACING_SAMPLING_RATE: "2" }, /TRACING_SAMPLING_RATE: expected a number from 0 to 1/],
    [{ ...ON, TRACING_EXPORTER_PROTOCOL: "udp" }, /TRACING_EXPORTER_PROTOCOL: expected http\/protobuf or grpc/],
  ])("%o", (env, says) => {
    expectRefused(env, says);
  });
});

test("/config shows where spans go, and nothing that may be secret", () => {
  const settings = readSettings({
    ...ON,
    OTEL_EXPORTER_OTLP_ENDPOINT: "https://collector:4318/otlp?token=hunter2",
    OTEL_EXPORTER_OTLP_HEADERS: "authorization=hunter2",
  });
  const shown = describeSettings(settings);
  expect(shown).toMatchObject({
    OTEL_EXPORTER_OTLP_ENDPOINT: "https://collector:4318/otlp",
    OTEL_EXPORTER_OTLP_HEADERS: "[redacted]",
  });
  expect(secretsOf(settings)).toContain("hunter2");
});
