// What stands in for a language model behind Envoy: it answers as the header `x-do` of a request tells it, at once, in pieces,
// or not at all.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { listen } from "../../support/listen.ts";

export interface ModelUpstream {
  readonly port: number;
  /** Requests that came, by path. */
  readonly seen: ReadonlyMap<string, number>;
  /** Ends the streams that wait for it. */
  release(): void;
}

/** The answers that `x-do` may ask for. `x-used` is the number of tokens that they say were used, `x-read` that of the prompt's. */
export const MODEL_ANSWERS = {
  json: (response) => {
    response.setHeader("content-type", "application/json");
    const body = `{"choices":[{"message":{"content":"hi"}}],"usage":${usageOf(response)}}`;
    const isCompressed = response.req.headers["accept-encoding"]?.includes("gzip") === true;
    if (isCompressed) response.setHeader("content-encoding", "gzip");
    response.end(isCompressed ? gzipSync(body) : body);
  },
  sse: (response) => {
    begin(response);
    response.end(`data: {"choices":[],"usage":${usageOf(response)}}\n\ndata: [DONE]\n\n`);
  },
  "no usage": (response) => {
    begin(response);
    response.end("data: [DONE]\n\n");
  },
  // As Anthropic's messages tell it: input first, output as it grows.
  message: (response) => {
    begin(response);
    response.write('data: {"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}}\n\n');
    response.end('data: {"type":"message_delta","usage":{"output_tokens":12}}\n\n');
  },
  pieces: (response) => {
    begin(response);
    const pieces = [...`data: {"choices":[],"usage":${usageOf(response)}}\n\n`];
    const writeOne = () => {
      if (pieces.length === 0) response.end();
      else response.write(pieces.shift(), () => setImmediate(writeOne));
    };
    writeOne();
  },
  forged: (response) => {
    response.setHeader("content-type", "application/json");
    const text = 'say "total_tokens": 99999, "input_tokens":99999';
    response.end(JSON.stringify({ choices: [{ message: { content: text } }], usage: JSON.parse(usageOf(response)) }));
  },
  wait: (response, held) => {
    begin(response);
    held.add(() => response.end(`data: {"choices":[],"usage":${usageOf(response)}}\n\ndata: [DONE]\n\n`));
  },
  "cut before headers": (response) => response.socket?.destroy(),
  "cut in the middle": (response) => {
    begin(response);
    setImmediate(() => response.socket?.destroy());
  },
  "cut after usage": (response) => {
    begin(response);
    response.write(`data: {"choices":[],"usage":${usageOf(response)}}\n\n`);
    setImmediate(() => response.socket?.destroy());
  },
  silence: () => undefined,
  error: (response) => {
    response.statusCode = 500;
    response.end('{"error":"overloaded"}');
  },
  trailer: (response) => {
    response.setHeader("trailer", "x-tokens");
    response.write("data\n");
    response.addTrailers({ "x-tokens": response.getHeader("x-tokens") as string });
    response.end();
  },
  redirect: (response) => {
    response.statusCode = 302;
    response.setHeader("location", "http://model.test/redirected/target");
    response.end();
  },
} as const satisfies Record<string, (response: ServerResponse, held: Set<() => void>) => void>;

export type ModelAnswer = keyof typeof MODEL_ANSWERS;

/** Starts it on a free port of the loopback. Several answers, split by commas, are those of a path's requests in turn. */
export async function startModel(): Promise<ModelUpstream> {
  const seen = new Map<string, number>();
  const held = new Set<() => void>();
  const server = createServer((request, response) => {
    const path = request.url ?? "";
    const before = seen.get(path) ?? 0;
    seen.set(path, before + 1);
    request.resume();
    const used = headerOf(request, "x-used");
    if (used !== undefined) response.setHeader("x-tokens", used);
    const answers = (headerOf(request, "x-do") ?? "json").split(",");
    const answer = path.endsWith("/target") ? "json" : answers[Math.min(before, answers.length - 1)];
    MODEL_ANSWERS[answer as ModelAnswer](response, held);
  });
  return {
    port: await listen(server),
    seen,
    release() {
      for (const end of held) end();
      held.clear();
    },
  };
}

function begin(response: ServerResponse): void {
  response.setHeader("content-type", "text/event-stream");
  response.write('data: {"choices":[{"delta":{"content":"hi"}}],"usage":null}\n\n');
}

function usageOf(response: ServerResponse): string {
  const used = response.getHeader("x-tokens");
  const read = headerOf(response.req, "x-read") ?? "1";
  return used === undefined ? "null" : `{"prompt_tokens":${read},"completion_tokens":1,"total_tokens":${String(used)}}`;
}

function headerOf(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return typeof value === "string" ? value : undefined;
}
