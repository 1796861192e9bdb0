// Where requests go by their headers, and what a grpc-timeout means.

import { describe, expect, test } from "vitest";
import { HeaderList } from "../../../../src/transport/fast-lane/hpack/header-list.ts";
import { nameIdOf } from "../../../../src/transport/fast-lane/hpack/header-names.ts";
import {
  areTrailersValid,
  RequestHead,
  Route,
  readHead,
  readTimeoutUs,
} from "../../../../src/transport/fast-lane/request-head.ts";
import { callFields, type Field } from "../../../support/http2-peer.ts";

const UNARY = { path: "/a.B/Unary", handler: { handle: () => undefined } };
const KNOWN = { methods: new Map([[UNARY.path, UNARY]]), handedPaths: new Set([UNARY.path, "/a.B/Stream"]) };

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
    { name: "without authority", fields: without(":authority"), route: "unary" },
    { name: "with a deadline", fields: callFields(UNARY.path, ["grpc-timeout", "5m"]), route: "unary" },
    {
      name: "that says it is not compressed",
      fields: callFields(UNARY.path, ["grpc-encoding", "identity"]),
      route: "unary",
    },
    { name: "that is compressed", fields: callFields(UNARY.path, ["grpc-encoding", "gzip"]), route: "unary" },
    { name: "in an unknown encoding", fields: callFields(UNARY.path, ["grpc-encoding", "br"]), route: "handOver" },
    {
      name: "in two encodings",
      fields: callFields(UNARY.path, ["grpc-encoding", "gzip"], ["grpc-encoding", "deflate"]),
      route: "handOver",
    },
    { name: "with a deadline that is none", fields: callFields(UNARY.path, ["grpc-timeout", "5"]), route: "handOver" },
    { name: "of gRPC-Web", fields: replaced("content-type", "application/grpc-web"), route: "handOver" },
    { name: "by another verb", fields: replaced(":method", "GET"), route: "handOver" },
    { name: "of a streaming method", fields: callFields("/a.B/Stream"), route: "handOver" },
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
      route: "unary",
    },
    {
      name: "with two deadlines",
      fields: callFields(UNARY.path, ["grpc-timeout", "1S"], ["grpc-timeout", "1S"]),
      route: "handOver",
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

describe("a timeout", () => {
  test.each([
    { text: "1H", us: 3_600_000_000 },
    { text: "2M", us: 120_000_000 },
    { text: "3S", us: 3_000_000 },
    { text: "20m", us: 20_000 },
    { text: "99999999u", us: 99_999_999 },
    { text: "500n", us: 0.5 },
    { text: "0m", us: 0 },
  ])("of $text is $us microseconds", ({ text, us }) => expect(readTimeoutUs(text)).toBe(us));

  test.each([
    { text: "" },
    { text: "m" },
    { text: "5" },
    { text: "5 m" },
    { text: "-5m" },
    { text: "1.5S" },
    { text: "123456789m" },
    { text: "5x" },
  ])("of '$text' is none", ({ text }) => expect(readTimeoutUs(text)).toBeNaN());
});
