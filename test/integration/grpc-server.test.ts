// The gRPC server over real sockets: what callers see of replies, failures, deadlines and bounds.

import * as grpc from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { SystemClock } from "../../src/base/clock.ts";
import { SHOULD_RATE_LIMIT_PATH } from "../../src/grpc/transport/load-proto.ts";
import type { GrpcServer, GrpcServerOptions } from "../../src/grpc/transport/transport.ts";
import { GrpcStatus, type UnaryHandler, type UnaryReply } from "../../src/grpc/unary.ts";
import { callRaw, openRawClient, startTestServer, type TestServer } from "../support/grpc-test-server.ts";
import { type Field, peerOf } from "../support/http2-peer.ts";

interface Rig extends TestServer {
  readonly client: grpc.Client;
}

async function serve(handle: UnaryHandler["handle"], options: Partial<GrpcServerOptions> = {}): Promise<Rig> {
  const running = await startTestServer({ handle }, options);
  return { ...running, client: openRawClient(running.server.port) };
}

/** A handler that leaves its calls unanswered until the test answers them. */
function heldReplies(): {
  replies: UnaryReply[];
  handle: UnaryHandler["handle"];
  arrived(count: number): Promise<void>;
} {
  const replies: UnaryReply[] = [];
  let notify = (): void => undefined;
  return {
    replies,
    handle: (_message, _deadlineUs, reply) => {
      replies.push(reply);
      notify();
    },
    arrived: (count) =>
      new Promise((resolve) => {
        notify = () => (replies.length >= count ? resolve() : undefined);
        notify();
      }),
  };
}

const HELLO = Buffer.from("hello");

describe("replies", () => {
  test("pass the bytes through both ways, empty ones too", async () => {
    const { client } = await serve((message, _deadlineUs, reply) => reply.ok(message));
    expect((await callRaw(client, HELLO)).message).toEqual(HELLO);
    expect((await callRaw(client, Buffer.alloc(0))).message).toEqual(Buffer.alloc(0));
  });

  test("may use their buffer again as soon as they are given", async () => {
    const shared = Buffer.from("first");
    const { client } = await serve((_message, _deadlineUs, reply) => {
      shared.write("first");
      reply.ok(shared);
      shared.fill(0);
    });
    expect((await callRaw(client, HELLO)).message?.toString()).toBe("first");
  });

  test("that fail with text no header can hold still carry the code", async () => {
    const text = `\ud800${"x".repeat(100_000)}`;
    const { client } = await serve((_bytes, _deadlineUs, reply) => reply.fail(GrpcStatus.unavailable, text));
    const { code, details } = await callRaw(client, HELLO);
    expect(code).toBe(grpc.status.UNAVAILABLE);
    expect(details).toBe(`\ufffd${"x".repeat(1_023)}`);
  });

  test("count once: a second one is dropped and reported", async () => {
    const { client, failures, server } = await serve((message, _deadlineUs, reply) => {
      reply.ok(message);
      reply.fail(GrpcStatus.internal, "second");
    });
    expect((await callRaw(client, HELLO)).code).toBe(grpc.status.OK);
    expect(failures.map(String)).toEqual([expect.stringMatching(/Error: a call is replied to once$/)]);
    expect(server.inFlight()).toBe(0);
  });

  test("of a handler that throws are INTERNAL, reported, and the next call is answered", async () => {
    const fault = new Error("secret detail");
    const { client, failures } = await serve((message, _deadlineUs, reply) => {
      if (message.length === 0) throw fault;
      reply.ok(message);
    });
    expect(await callRaw(client, Buffer.alloc(0))).toMatchObject({
      code: grpc.status.INTERNAL,
      details: "internal error",
    });
    expect((await callRaw(client, HELLO)).code).toBe(grpc.status.OK);
    expect(failures).toEqual([fault]);
  });

  test("to calls that were cancelled are dropped", async () => {
    const held = heldReplies();
    const { client, failures, server } = await serve(held.handle);
    const same = (bytes: Buffer): Buffer => bytes;
    const ended = new Promise<grpc.ServiceError | null>((resolve) => {
      const call = client.makeUnaryRequest(SHOULD_RATE_LIMIT_PATH, same, same, HELLO, resolve);
      held.arrived(1).then(() => call.cancel());
    });
    expect((await ended)?.code).toBe(grpc.status.CANCELLED);
    // A round trip on the same connection: the server has read the cancellation by then.
    const second = callRaw(client, HELLO);
    await held.arrived(2);
    expect(server.inFlight()).toBe(2);
    for (const reply of held.replies) reply.ok(HELLO);
    expect((await second).code).toBe(grpc.status.OK);
    expect(server.inFlight()).toBe(0);
    expect(failures).toEqual([]);
  });
});

describe("deadlines", () => {
  /** The status of a call with these fields added to its own. */
  async function statusOf({ port }: GrpcServer, ...more: Field[]): Promise<string | undefined> {
    const peer = peerOf(port);
    peer.greet();
    peer.send(peer.call(1, SHOULD_RATE_LIMIT_PATH, HELLO, ...more));
    return (await peer.outcome(1)).status;
  }

  test("reach the handler on the process's clock", async () => {
    const clock = new SystemClock();
    let leftUs = 0;
    const { client } = await serve(
      (message, deadlineUs, reply) => {
        leftUs = deadlineUs - clock.nowUs();
        reply.ok(message);
      },
      { clock },
    );
    await callRaw(client, HELLO, { deadlineMs: 5_000 });
    expect(leftUs).toBeGreaterThan(3_000_000);
    expect(leftUs).toBeLessThanOrEqual(5_001_000);
  });

  test("are Infinity where the caller set none", async () => {
    let seen = 0;
    const { server } = await serve((message, deadlineUs, reply) => {
      seen = deadlineUs;
      reply.ok(message);
    });
    expect(await statusOf(server)).toBe("0");
    expect(seen).toBe(Number.POSITIVE_INFINITY);
  });

  test("that have passed end the call before the handler sees it", async () => {
    let calls = 0;
    const { server } = await serve((message, _deadlineUs, reply) => {
      calls++;
      reply.ok(message);
    });
    expect(await statusOf(server, ["grpc-timeout", "1n"])).toBe(String(grpc.status.DEADLINE_EXCEEDED));
    expect(calls).toBe(0);
  });

  test("that pass while the handler works end the call; the late reply harms nobody", async () => {
    const held = heldReplies();
    const { client, failures } = await serve(held.handle);
    await new Promise((resolve) => client.waitForReady(Date.now() + 5_000, resolve));
    // Long enough to reach the handler on a busy machine.
    const late = await callRaw(client, HELLO, { deadlineMs: 1_000 });
    expect(late.code).toBe(grpc.status.DEADLINE_EXCEEDED);
    const second = callRaw(client, HELLO);
    await held.arrived(2);
    for (const reply of held.replies) reply.ok(HELLO);
    expect((await second).code).toBe(grpc.status.OK);
    expect(failures).toEqual([]);
  });
});

describe("bounds", () => {
  test("one call more than may be in flight is RESOURCE_EXHAUSTED at once, until one is answered", async () => {
    const held = heldReplies();
    let overloads = 0;
    const observer = { handlerFailed: () => undefined, overloaded: () => overloads++, unserved: () => undefined };
    const { client } = await serve(held.handle, { inFlightMax: 2, observer });
    const running = [callRaw(client, HELLO), callRaw(client, HELLO)];
    await held.arrived(2);
    expect(await callRaw(client, HELLO)).toMatchObject({ code: grpc.status.RESOURCE_EXHAUSTED });
    expect(overloads).toBe(1);
    for (const reply of held.replies) reply.ok(HELLO);
    expect((await Promise.all(running)).map(({ code }) => code)).toEqual([0, 0]);
    const next = callRaw(client, HELLO);
    await held.arrived(3);
    held.replies[2]?.ok(HELLO);
    expect((await next).code).toBe(grpc.status.OK);
  });

  test("a message above the largest size is RESOURCE_EXHAUSTED, one of that size passes", async () => {
    const { client } = await serve((_message, _deadlineUs, reply) => reply.ok(HELLO), { maxMessageBytes: 1_000 });
    expect((await callRaw(client, Buffer.alloc(1_000))).code).toBe(grpc.status.OK);
    expect((await callRaw(client, Buffer.alloc(1_001))).code).toBe(grpc.status.RESOURCE_EXHAUSTED);
  });
});
