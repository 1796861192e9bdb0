// The interoperability client of grpc-go against the fast lane.

import { execFile } from "node:child_process";
import { beforeAll, describe, expect, test } from "vitest";
import type { GrpcStatus, UnaryHandler } from "../../src/grpc/unary.ts";
import { type FastLaneRig, startFastLaneRig } from "../support/fast-lane-rig.ts";
import { goTool } from "../support/go-tool.ts";
import { bytesField } from "../support/wire.ts";

const client = goTool("google.golang.org/grpc/interop/client@v1.85.0");
const SERVICE = "/grpc.testing.TestService";
const NOTHING = Buffer.alloc(0);

/** Top-level fields of a message, the last of each number: numbers of varints, bytes of what has a length. */
function fieldsOf(message: Buffer): Map<number, number | Buffer> {
  const fields = new Map<number, number | Buffer>();
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = message[at++] as number;
      value += (byte & 0x7f) * unit;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.length) {
    const tag = varint();
    const value = varint();
    if ((tag & 7) === 0) fields.set(tag >>> 3, value);
    else {
      fields.set(tag >>> 3, message.subarray(at, at + value));
      at += value;
    }
  }
  return fields;
}

const emptyCall: UnaryHandler = { handle: (_message, _deadlineUs, reply) => reply.ok(NOTHING) };
/** SimpleRequest: 2 is the size of the payload to return, 7 the status. */
const unaryCall: UnaryHandler = {
  handle(message, _deadlineUs, reply) {
    const request = fieldsOf(message);
    const status = request.get(7);
    if (Buffer.isBuffer(status)) {
      const fields = fieldsOf(status);
      reply.fail(fields.get(1) as GrpcStatus, String(fields.get(2) ?? ""));
    } else reply.ok(bytesField(1, bytesField(2, Buffer.alloc(Number(request.get(2) ?? 0)))));
  },
};

let rig: FastLaneRig;
beforeAll(async () => {
  rig = await startFastLaneRig(emptyCall, {
    methods: [
      { path: `${SERVICE}/EmptyCall`, handler: emptyCall },
      { path: `${SERVICE}/UnaryCall`, handler: unaryCall },
    ],
  });
});

/** What the client complained of in a case; undefined if it passed. */
async function complaint(name: string, more: readonly string[] = []): Promise<unknown> {
  const { server, failures } = rig;
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
