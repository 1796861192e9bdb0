// Where requests go by their headers.

import { describe, expect, test } from "vitest";
import { HeaderList } from "../../../../src/grpc/transport/fast-lane/hpack/header-list.ts";
import { nameIdOf } from "../../../../src/grpc/transport/fast-lane/hpack/header-names.ts";
import {
  areTrailersValid,
  RequestHead,
  Route,
  readHead,
} from "../../../../src/grpc/transport/fast-lane/request-head.ts";
import type { StreamMethod } from "../../../../src/grpc/transport/other-services.ts";
import { callFields, type Field } from "../../../support/http2-peer.ts";

const UNARY = { path: "/a.B/Unary", handler: { handle: () => undefined } };
const STREAM = {} as StreamMethod;
const KNOWN = { methods: new Map([[UNARY.path, UNARY]]), streams: new Map([["/a.B/Stream", STREAM]]) };

function listOf(fields: readonly Field[]): HeaderList {
  const list = new HeaderList();
  for (const [name, value] of fields) list.add(name, value, nameIdOf(name));
  return list;
}

function headOf(fields: readonly Field[]): RequestHead {
  const head = new RequestHead();
  readHead(listOf(fields), KNOWN, head);
  return head;
}

const routeOf = (fields: readonly Field[]): string =>
  Object.entries(Route).find(([, route]) => route === headOf(fields).route)?.[0] ?? "";
const replaced = (name: string, value: string): Field[] =>
  callFields(UNARY.path).map(([key, old]): Field => [key, key === name ? value : old]);
const without = (name: string): Field[] => callFields(UNARY.path).filter(([key]) => key !== name);

describe("a request", () => {
  test.each<{ name: string; fields: Field[]; route: keyof typeof Route }>([
    { name: "of a unary method", fields: callFields(UNARY.path), route: "unary" },
    { name: "with a subtype", fields: replaced("content-type", "application/grpc+proto"), route: "unary" },
    { name: "with a parameter", fields: replaced("content-type", "application/grpc;v=1"), route: "unary" },
    { name: "without te", fields: without("te"), route: "unary" },
    { name: "with a host", fields: [...without(":authority"), ["host", "test"]], route: "unary" },
    { name: "with neither authority nor host", fields: without(":authority"), route: "malformed" },
    { name: "with a deadline", fields: callFields(UNARY.path, ["grpc-timeout", "5m"]), route: "unary" },
    {
      name: "that says it is not compressed",
      fields: callFields(UNARY.path, ["grpc-encoding", "identity"]),
      route: "unary",
    },
    { name: "that is compressed", fields: callFields(UNARY.path, ["grpc-encoding", "gzip"]), route: "compressed" },
    {
      name: "in two encodings",
      fields: callFields(UNARY.path, ["grpc-encoding", "identity"], ["grpc-encoding", "identity"]),
      route: "compressed",
    },
    {
      name: "with a deadline that is none",
      fields: callFields(UNARY.path, ["grpc-timeout", "5"]),
      route: "badTimeout",
    },
    { name: "of gRPC-Web", fields: replaced("content-type", "application/grpc-web"), route: "notGrpc" },
    { name: "by another verb", fields: replaced(":method", "GET"), route: "notGrpc" },
    { name: "of a streaming method", fields: callFields("/a.B/Stream"), route: "streamed" },
    {
      name: "of a streaming method, compressed",
      fields: callFields("/a.B/Stream", ["grpc-encoding", "gzip"]),
      route: "compressed",
    },
    { name: "of no method", fields: callFields("/a.B/Other"), route: "unknownMethod" },
    { name: "of no gRPC", fields: replaced("content-type", "text/html"), route: "notGrpc" },
    { name: "without content type", fields: without("content-type"), route: "notGrpc" },
    { name: "without path", fields: without(":path"), route: "malformed" },
    { name: "without method", fields: without(":method"), route: "malformed" },
    { name: "without scheme", fields: without(":scheme"), route: "malformed" },
    { name: "with an empty path", fields: replaced(":path", ""), route: "malformed" },
    { name: "with two paths", fields: [[":path", UNARY.path], ...callFields(UNARY.path)], route: "malformed" },
    {
      name: "with a pseudo-header after others",
      fields: [...without(":path"), [":path", UNARY.path]],
      route: "malformed",
    },
    {
      name: "with a pseudo-header of answers",
      fields: [[":status", "200"], ...callFields(UNARY.path)],
      route: "malformed",
    },
    { name: "with a field of HTTP/1.1", fields: callFields(UNARY.path, ["connection", "close"]), route: "malformed" },
    { name: "with another te", fields: replaced("te", "gzip"), route: "malformed" },
    { name: "with an upper case name", fields: callFields(UNARY.path, ["X-Any", "1"]), route: "malformed" },
    { name: "with an empty name", fields: callFields(UNARY.path, ["", "1"]), route: "malformed" },
    {
      name: "with a length that is none",
      fields: callFields(UNARY.path, ["content-length", "-1"]),
      route: "malformed",
    },
    {
      name: "with two lengths that differ",
      fields: callFields(UNARY.path, ["content-length", "5"], ["content-length", "6"]),
      route: "malformed",
    },
    {
      name: "with the same length twice",
      fields: callFields(UNARY.path, ["content-length", "5"], ["content-length", "5"]),
      route: "malformed",
    },
    {
      name: "with two deadlines",
      fields: callFields(UNARY.path, ["grpc-timeout", "1S"], ["grpc-timeout", "1S"]),
      route: "badTimeout",
    },
    {
      name: "with a content type of gRPC after another",
      fields: [...replaced("content-type", "text/html"), ["content-type", "application/grpc"]],
      route: "notGrpc",
    },
  ])("$name goes to $route", ({ fields, route }) => {
    expect(routeOf(fields)).toBe(route);
  });

  test("keeps nothing of the one read before", () => {
    const head = new RequestHead();
    readHead(listOf(callFields(UNARY.path, ["grpc-timeout", "1S"], ["content-length", "7"])), KNOWN, head);
    readHead(listOf(callFields(UNARY.path)), KNOWN, head);
    expect(head).toMatchObject({ timeoutUs: Number.POSITIVE_INFINITY, contentLength: -1, method: UNARY });
  });
});

test.each<{ name: string; fields: Field[]; isValid: boolean }>([
  { name: "plain fields", fields: [["x-any", "1"]], isValid: true },
  { name: "a pseudo-header", fields: [[":path", "/"]], isValid: false },
  { name: "a field of HTTP/1.1", fields: [["upgrade", "1"]], isValid: false },
])("trailers with $name are valid: $isValid", ({ fields, isValid }) => {
  expect(areTrailersValid(listOf(fields))).toBe(isValid);
});
