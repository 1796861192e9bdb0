// The interoperability client of grpc-go against the fast lane.

import { execFile } from "node:child_process";
import { beforeAll, describe, expect, test } from "vitest";
import { endWithTest } from "../../../test/support/ends.ts";
import { goTool } from "../../../test/support/go-tool.ts";
import { bytesField, varintField } from "../../../test/support/wire.ts";
import {
  type CallStatus,
  type GrpcStatus,
  type RunningServer,
  type StreamCall,
  serve,
  type UnaryHandler,
} from "../src/fast-lane.ts";

const client = goTool("google.golang.org/grpc/interop/client@v1.85.0");
const SERVICE = "/grpc.testing.TestService";
const NOTHING = Buffer.alloc(0);

type Value = number | Buffer;

/** Top-level fields of a message, by their numbers: numbers of varints, bytes of what has a length. */
function fieldsOf(message: Value | undefined): ReadonlyMap<number, readonly Value[]> {
  const fields = new Map<number, Value[]>();
  const bytes = Buffer.isBuffer(message) ? message : NOTHING;
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = bytes[at++] as number;
      value += (byte & 0x7f) * unit;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    const value = varint();
    const isNumber = (tag & 7) === 0;
    fields.set(tag >>> 3, [...(fields.get(tag >>> 3) ?? []), isNumber ? value : bytes.subarray(at, at + value)]);
    if (!isNumber) at += value;
  }
  return fields;
}

/** A message whose first field is a payload of zeros. */
const payloadOf = (size: Value | undefined) => bytesField(1, bytesField(2, Buffer.alloc(Number(size ?? 0))));

/** The status that field 7 of a request asks for; undefined: OK. */
function askedStatus(request: ReadonlyMap<number, readonly Value[]>): CallStatus | undefined {
  const [status] = request.get(7) ?? [];
  if (status === undefined) return undefined;
  const fields = fieldsOf(status);
  return { code: fields.get(1)?.[0] as GrpcStatus, details: String(fields.get(2)?.[0] ?? "") };
}

const emptyCall: UnaryHandler = { handle: (_message, _deadlineUs, reply) => reply.ok(NOTHING) };
/** SimpleRequest: 2 is the size of the payload to return. */
const unaryCall: UnaryHandler = {
  handle(message, _deadlineUs, reply) {
    const request = fieldsOf(message);
    const status = askedStatus(request);
    if (status === undefined) reply.ok(payloadOf(request.get(2)?.[0]));
    else reply.fail(status.code, status.details);
  },
};

/** StreamingOutputCallRequest: 2 are the answers to send, whose field 1 is the size of a payload. */
function answerAll(message: Buffer, call: StreamCall): void {
  const request = fieldsOf(message);
  for (const answer of request.get(2) ?? []) call.answer(payloadOf(fieldsOf(answer).get(1)?.[0]));
  const status = askedStatus(request);
  if (status !== undefined) call.end(status);
}

/** Bytes of payload that have come with requests of a stream. */
const received = new WeakMap<StreamCall, number>();

let server: RunningServer;
const failures: unknown[] = [];
beforeAll(async () => {
  server = await serve({
    methods: [
      { path: `${SERVICE}/EmptyCall`, handler: emptyCall },
      { path: `${SERVICE}/UnaryCall`, handler: unaryCall },
      {
        path: `${SERVICE}/StreamingOutputCall`,
        takesMany: false,
        handle(message = NOTHING, call) {
          answerAll(message, call);
          call.end();
        },
      },
      {
        path: `${SERVICE}/StreamingInputCall`,
        takesMany: true,
        handle(message, call) {
          const size = received.get(call) ?? 0;
          const [payload] = fieldsOf(fieldsOf(message).get(1)?.[0]).get(2) ?? [];
          if (Buffer.isBuffer(payload)) received.set(call, size + payload.length);
          if (message !== undefined) return;
          call.answer(varintField(1, size));
          call.end();
        },
      },
      {
        path: `${SERVICE}/FullDuplexCall`,
        takesMany: true,
        handle: (message, call) => (message === undefined ? call.end() : answerAll(message, call)),
      },
    ],
    observer: {
      handlerFailed: (_path, error) => failures.push(error),
      overloaded: () => undefined,
      unserved: () => undefined,
    },
  });
  endWithTest(() => server.drain(0));
});

/** What the client complained of in a case; undefined if it passed. */
async function complaint(name: string, more: readonly string[] = []): Promise<unknown> {
  const args = ["-server_host=127.0.0.1", `-server_port=${server.port}`, `-test_case=${name}`, ...more];
  const said = await new Promise((resolve) =>
    execFile(client ?? "", args, (error, _out, text) =>
      resolve(error === null ? undefined : `${error.message}\n${text}`),
    ),
  );
  return said ?? failures[0];
}

// Promise(grpc): Other people's clients are served: grpc-go's and ghz.
describe.skipIf(client === undefined)("grpc-go's interop client passes", () => {
  test.each([
    { name: "empty_unary" },
    { name: "large_unary" },
    { name: "special_status_message" },
    { name: "status_code_and_message" },
    { name: "server_streaming" },
    { name: "client_streaming" },
    { name: "ping_pong" },
    { name: "empty_stream" },
    { name: "cancel_after_begin" },
    { name: "cancel_after_first_response" },
    { name: "timeout_on_sleeping_server" },
    { name: "unimplemented_method" },
    { name: "unimplemented_service" },
    {
      name: "rpc_soak",
      more: [
        "-soak_iterations=200",
        "-soak_per_iteration_max_acceptable_latency_ms=5000",
        "-soak_overall_timeout_seconds=60",
      ],
    },
    { name: "channel_soak", more: ["-soak_iterations=20", "-soak_per_iteration_max_acceptable_latency_ms=5000"] },
  ])("$name", async ({ name, more }) => {
    expect(await complaint(name, more)).toBeUndefined();
  });
});
