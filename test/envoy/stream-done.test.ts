// What Envoy asks at the end of a stream (apply_on_stream_done), however the stream ends. docs/llm.md has the table.

import { request } from "node:http";
import { beforeAll, describe, expect, test } from "vitest";
import { bootstrapText, type Config, cluster, fixed, fromHeader, httpFilter, listener } from "./support/bootstrap.ts";
import { Envoy } from "./support/envoy-process.ts";
import { type ModelUpstream, startModel } from "./support/model-upstream.ts";
import { type AskedDescriptor, CASE_ENTRY, RlsRecorder } from "./support/rls-recorder.ts";

const CASE = fromHeader("x-case", CASE_ENTRY);
const line = (what: string, more: Config = {}) => ({
  actions: [CASE, fixed("what", what), fromHeader("x-answer", "answer", true), fromHeader("x-id", "id", true)],
  ...more,
});
const whenDone = (what: string, format?: string) =>
  line(what, { apply_on_stream_done: true, ...(format === undefined ? {} : { hits_addend: { format } }) });

const RATE_LIMITS = [
  line("asks"),
  whenDone("no number"),
  whenDone("header", "%RESP(x-tokens)%"),
  whenDone("trailer", "%TRAILER(x-tokens)%"),
  whenDone("metadata", "%DYNAMIC_METADATA(llm:used)%"),
];

const PER_ROUTE = {
  "envoy.filters.http.ratelimit": {
    "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute",
    rate_limits: RATE_LIMITS,
  },
};

const routeTo = (prefix: string, more: Config = {}) => ({
  match: { prefix },
  route: { cluster: "upstream", ...more },
  typed_per_filter_config: PER_ROUTE,
});

const ROUTES = [
  routeTo("/retried", { retry_policy: { retry_on: "5xx,reset", num_retries: 2 } }),
  routeTo("/redirected", { internal_redirect_policy: { redirect_response_codes: [302] } }),
  routeTo("/nobody", { cluster: "nobody" }),
  routeTo("/soon", { timeout: "0.2s" }),
  routeTo("/"),
];

// A local reply of a filter that a request header asks for, and metadata out of one.
const lua = (source: string) => httpFilter("lua", { default_source_code: { inline_string: source } }, "lua.v3.Lua");
const REPLIES = (header: string) =>
  lua(`function envoy_on_request(handle)
    if handle:headers():get("${header}") then handle:respond({[":status"] = "418"}, "") end
  end`);
const SETS_METADATA = lua(`function envoy_on_request(handle)
  local used = handle:headers():get("x-metadata")
  if used then handle:streamInfo():dynamicMetadata():set("llm", "used", tonumber(used) or used) end
end`);
const NEW_ID = httpFilter(
  "header_mutation",
  {
    mutations: {
      request_mutations: [
        {
          append: {
            header: { key: "x-id", value: "%UNIQUE_ID%" },
            append_action: "OVERWRITE_IF_EXISTS_OR_ADD",
          },
        },
      ],
    },
  },
  "header_mutation.v3.HeaderMutation",
);

let rls: RlsRecorder;
let model: ModelUpstream;
let envoy: Envoy;
beforeAll(async () => {
  rls = await RlsRecorder.start();
  model = await startModel();
  const before = [NEW_ID, SETS_METADATA, REPLIES("x-reply-before")];
  const after = [REPLIES("x-reply-after")];
  envoy = await Envoy.start(
    bootstrapText({
      listeners: [listener({ name: "edge", routes: ROUTES, before, after, filter: { timeout: "0.5s" } })],
      clusters: [
        cluster({ name: "headgate", endpoints: [rls.port], http2: true }),
        cluster({ name: "upstream", endpoints: [model.port] }),
        cluster({ name: "nobody", endpoints: [1] }),
      ],
    }),
  );
});

/** When the caller goes away, if it does. */
type Leaves = "never" | "in the middle" | "before the answer" | "while it is decided";

interface End {
  readonly name: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly leaves?: Leaves;
  /** What each call asked after the first, one text per descriptor: which line, and its hits. */
  readonly rest: readonly (readonly string[])[];
}

const USED_7 = { "x-used": "7" };
const ENDS: readonly End[] = [
  { name: "ends", headers: { "x-do": "json", ...USED_7 }, rest: [["no number", "header 7"]] },
  { name: "ends with trailers", headers: { "x-do": "trailer", ...USED_7 }, rest: [["no number", "header 7"]] },
  { name: "has no such header", headers: { "x-do": "json" }, rest: [["no number"]] },
  { name: "ends with an error", headers: { "x-do": "error", ...USED_7 }, rest: [["no number", "header 7"]] },
  { name: "breaks before the answer", headers: { "x-do": "cut before headers" }, rest: [["no number"]] },
  {
    name: "breaks in the middle",
    headers: { "x-do": "cut in the middle", ...USED_7 },
    rest: [["no number", "header 7"]],
  },
  { name: "finds nobody", path: "/nobody", rest: [["no number"]] },
  { name: "gets no answer in time", path: "/soon", headers: { "x-do": "silence" }, rest: [["no number"]] },
  {
    name: "isn't over in time",
    path: "/soon",
    headers: { "x-do": "wait", ...USED_7 },
    rest: [["no number", "header 7"]],
  },
  { name: "is refused", headers: { "x-answer": "refuse" }, rest: [["no number"]] },
  {
    name: "is refused with a number in its metadata",
    headers: { "x-answer": "refuse", "x-metadata": "9" },
    rest: [["no number", "metadata 9"]],
  },
  { name: "is not decided in time", headers: { "x-answer": "never" }, rest: [["no number"]] },
  {
    name: "is tried three times",
    path: "/retried",
    headers: { "x-do": "error,error,json", ...USED_7 },
    rest: [["no number", "header 7"]],
  },
  {
    name: "is redirected inside",
    path: "/redirected",
    headers: { "x-do": "redirect", ...USED_7 },
    rest: [["no number"], ["asks"], ["no number", "header 7"]],
  },
  { name: "is answered by a filter behind", headers: { "x-reply-after": "1" }, rest: [["no number"]] },
  {
    name: "is left in the middle",
    headers: { "x-do": "wait", ...USED_7 },
    leaves: "in the middle",
    rest: [["no number", "header 7"]],
  },
  {
    name: "is left before the answer",
    headers: { "x-do": "silence" },
    leaves: "before the answer",
    rest: [["no number"]],
  },
  {
    name: "is left while it is decided",
    headers: { "x-answer": "never" },
    leaves: "while it is decided",
    rest: [],
  },
];

describe("a stream that", () => {
  test.each(ENDS)("$name", async ({ name, path = "/", headers = {}, leaves = "never", rest }) => {
    await send(`${path}?${encodeURIComponent(name)}`, { ...headers, "x-case": name }, leaves);
    await expect.poll(() => rls.calls(name).length).toBeGreaterThan(rest.length);
    await everythingAsked();
    const [first, ...later] = rls.calls(name);
    expect(first?.descriptors.map(lineOf)).toEqual(["asks"]);
    expect(later.map((call) => call.descriptors.map(lineOf))).toEqual(rest);
    expect(rls.calls(name).map((call) => call.hitsAddend)).toEqual(Array(rest.length + 1).fill(0));
  });

  test("is answered by a filter before asks nothing", async () => {
    await send("/", { "x-reply-before": "1", "x-case": "before" }, "never");
    await everythingAsked();
    expect(rls.calls("before")).toEqual([]);
  });
});

describe("a number from metadata", () => {
  test.each([
    ["0", "metadata 0"],
    ["2.5", "metadata 2"],
    ["1234567", "metadata 1234567"],
    ["1000000000", "metadata 1000000000"],
  ])("of %s is reported", async (value, line) => {
    expect(await reportWith(value)).toEqual(["no number", line]);
  });

  test.each(["", "many", "-3", "1000000001"])("of '%s' leaves the descriptor out", async (value) => {
    expect(await reportWith(value)).toEqual(["no number"]);
  });
});

describe("the id that Envoy makes", () => {
  test("is a new one behind a redirect, and the stream before it reports its own", async () => {
    await send("/redirected?ids", { "x-case": "ids", "x-do": "redirect" }, "never");
    await expect.poll(() => rls.calls("ids").length).toBe(4);
    const calls = rls.calls("ids").map((call) => new Set(call.descriptors.map(({ entries }) => entries.id)));
    expect(calls[0]).toEqual(calls[1]);
    expect(calls[2]).toEqual(calls[3]);
    expect(calls[0]).not.toEqual(calls[2]);
  });
});

const lineOf = ({ entries, hits }: AskedDescriptor) => (hits === undefined ? entries.what : `${entries.what} ${hits}`);

async function reportWith(metadata: string): Promise<(string | undefined)[]> {
  const name = `metadata '${metadata}'`;
  await send("/", { "x-case": name, "x-metadata": metadata }, "never");
  await expect.poll(() => rls.calls(name).length).toBe(2);
  return rls.calls(name)[1]?.descriptors.map(lineOf) ?? [];
}

/** Envoy has one worker and one connection to the service: what it asked before it asks for this has come. */
async function everythingAsked(): Promise<void> {
  const before = rls.calls("marker").length;
  await send("/", { "x-case": "marker" }, "never");
  await expect.poll(() => rls.calls("marker").length).toBe(before + 2);
}

/** Resolves when the stream has ended, or the caller has left it. */
async function send(path: string, headers: Readonly<Record<string, string>>, leaves: Leaves): Promise<void> {
  const sent = request({ host: "127.0.0.1", port: envoy.port("edge"), path, headers });
  const ended = new Promise<void>((resolve) => {
    sent.on("close", resolve);
    sent.on("error", () => undefined);
    sent.on("response", (response) => {
      response.on("error", () => undefined);
      response.on("data", () => {
        if (leaves === "in the middle") sent.destroy();
      });
    });
  });
  sent.end();
  const name = headers["x-case"] ?? "";
  if (leaves === "before the answer") await expect.poll(() => model.seen.get(path)).toBe(1);
  if (leaves === "while it is decided") await expect.poll(() => rls.calls(name).length).toBe(1);
  if (leaves === "before the answer" || leaves === "while it is decided") sent.destroy();
  await ended;
  if (leaves === "while it is decided") await expect.poll(() => rls.calls(name)[0]?.isCancelled).toBe(true);
}
