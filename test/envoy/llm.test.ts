// What deploy/envoy/llm.yaml asks: how much a call may cost, whose hold it is, and what it has used. docs/llm.md has the table.

import { beforeAll, describe, expect, test } from "vitest";
import type { Envoy } from "./support/envoy-process.ts";
import { type ModelCall, Stream, startLlmEnvoy } from "./support/llm-rig.ts";
import { startModel } from "./support/model-upstream.ts";
import { type Asked, RlsRecorder } from "./support/rls-recorder.ts";

let rls: RlsRecorder;
let envoy: Envoy;
beforeAll(async () => {
  rls = await RlsRecorder.start();
  const model = await startModel();
  envoy = await startLlmEnvoy({ model: model.port, headgate: rls.port });
});

describe("the estimate", () => {
  test.each([
    { body: '{"max_tokens":100}', is: "118", why: "the longest answer and the bytes of the prompt" },
    { body: '{"max_completion_tokens":100}', is: "129", why: "the same by its newer name" },
    { body: '{"max_output_tokens":100}', is: "125", why: "the same by its newest name" },
    { body: '{"max_tokens":1,"max_completion_tokens":100}', is: "144", why: "the largest of them" },
    { body: '{"max_tokens":100,"n":3}', is: "324", why: "as many answers as are asked for" },
    { body: '{"max_tok\\u0065ns":100}', is: "123", why: "found however JSON spells its name" },
    { body: '{"max_tokens":1,"max_tokens":100}', is: "133", why: "the last of two of one name, as models read it" },
    { body: '{"max_tokens":1e300}', is: "1000000000", why: "at most a billion" },
    { body: '{"messages":[]}', is: "unknown", why: "left to the rule without a number" },
    { body: '{"max_tokens":-5}', is: "unknown", why: "left to the rule below 1" },
    { body: '{"max_tokens":"many"}', is: "unknown", why: "left to the rule if it is a word" },
    { body: '{"max_tokens":', is: "unknown", why: "left to the rule if the body is broken" },
    { body: "", is: "unknown", why: "left to the rule without a body" },
  ])("is $why", async ({ body, is }) => {
    const [reserve] = await callsOf({ body });
    expect(reserve?.descriptors.map(({ entries }) => entries.max_tokens)).toEqual([is]);
  });

  test("is read whatever the content type says", async () => {
    const [reserve] = await callsOf({ body: '{"max_tokens":100}', headers: { "content-type": "text/plain" } });
    expect(reserve?.descriptors[0]?.entries.max_tokens).toBe("118");
  });
});

describe("a caller chooses", () => {
  // Promise(llm): Callers choose neither the tenant nor the id of a hold.
  test("neither its tenant nor the id of its hold", async () => {
    const forged = { "x-tenant": "victim", "x-hold-id": "theirs", "x-request-id": "theirs" };
    const calls = [...(await callsOf({ headers: forged })), ...(await callsOf({ headers: forged }))];
    const entries = calls.flatMap(({ descriptors }) => descriptors.map((descriptor) => descriptor.entries));
    expect(new Set(entries.map(({ tenant }) => tenant))).toEqual(new Set(["acme"]));
    const ids = entries.map(({ request_id }) => request_id);
    expect([ids[0] === ids[1], ids[1] === ids[2], ids[2] === ids[3]]).toEqual([true, false, true]);
    expect(ids).not.toContain("theirs");
  });

  test("no answer without a key", async () => {
    const stream = new Stream(envoy, { headers: { authorization: "Bearer nobody" } });
    expect(await stream.status).toBe(401);
    expect(await callsOf({})).toHaveLength(2);
  });
});

test("what is not sent to a model is not asked about", async () => {
  const before = rls.calls().length;
  expect(await new Stream(envoy, { method: "GET", body: "" }).status).toBe(200);
  await callsOf({});
  expect(rls.calls()).toHaveLength(before + 2);
});

// Promise(llm): Text that a model writes is not read as its usage report.
describe("at the end", () => {
  const known = (used: number) => [{ entry: "used", hits: used, estimate: undefined }];
  const unknown = [{ entry: "unknown", hits: undefined, estimate: "118" }];
  test.each<{ name: string; call: ModelCall; is: object[] }>([
    { name: "a whole answer reports its tokens", call: { answer: "json", used: 7 }, is: known(7) },
    { name: "a streamed answer reports its tokens", call: { answer: "sse", used: 7 }, is: known(7) },
    { name: "input and output make up for a total", call: { answer: "message" }, is: known(25 + 12) },
    {
      name: "an answer that could be compressed reports its tokens",
      call: { answer: "json", used: 7, headers: { "accept-encoding": "gzip" } },
      is: known(7),
    },
    {
      name: "a number that comes in pieces is put together",
      call: { answer: "pieces", used: 1234567 },
      is: known(1_234_567),
    },
    { name: "what a model writes is not taken for its report", call: { answer: "forged", used: 7 }, is: known(7) },
    { name: "no tokens are no tokens", call: { answer: "json", used: 0 }, is: known(0) },
    { name: "an answer that says nothing keeps what was held", call: { answer: "no usage" }, is: unknown },
    { name: "an error costs nothing", call: { answer: "error" }, is: known(0) },
    {
      name: "a connection that breaks before the answer costs nothing",
      call: { answer: "cut before headers" },
      is: known(0),
    },
    {
      name: "a connection that breaks in the answer keeps what was held",
      call: { answer: "cut in the middle" },
      is: unknown,
    },
    {
      name: "an answer that breaks after its report has paid that",
      call: { answer: "cut after usage", used: 7 },
      is: known(7),
    },
  ])("$name", async ({ call, is }) => {
    const calls = await callsOf({ ...call, body: '{"max_tokens":100}' });
    expect(calls).toHaveLength(2);
    expect(calls[1]?.descriptors.map(settlementOf)).toEqual(is);
  });

  // Promise(llm): A refused call reports nothing.
  test("a refused call reports nothing", async () => {
    rls.refuses = true;
    const before = rls.calls().length;
    expect(await new Stream(envoy, {}).status).toBe(429);
    rls.refuses = false;
    await callsOf({});
    expect(
      rls
        .calls()
        .slice(before)
        .map(({ descriptors }) => descriptors[0]?.entries.settle),
    ).toEqual([undefined, undefined, "used"]);
  });
});

const settlementOf = ({ entries, hits }: Asked["descriptors"][number]) => ({
  entry: entries.settle,
  hits,
  estimate: entries.max_tokens,
});

/** What Envoy asks about a call to the model. */
async function callsOf(call: ModelCall): Promise<readonly Asked[]> {
  const before = rls.calls().length;
  await new Stream(envoy, { used: 7, ...call }).ended;
  await expect.poll(() => rls.calls().length).toBe(before + 2);
  return rls.calls().slice(before);
}
