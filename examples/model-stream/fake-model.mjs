// Stands in for a language model on the loopback: streams events as such services do, a token each, with the usage so far.

import { createServer } from "node:http";

/** Tokens that it counts for a prompt, whatever it says. */
const PROMPT_TOKENS = 10;

/** Listens on a free port. A request says `{ "max_tokens": 100, "wants": 42 }`: `wants` is how long the answer would be. */
export async function startFakeModel() {
  const server = createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => answer(JSON.parse(Buffer.concat(parts).toString()), response));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    stop() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

function answer({ max_tokens: maxTokens, wants, fails_after: failsAfter }, response) {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const length = Math.min(wants, maxTokens - PROMPT_TOKENS);
  for (let i = 1; i <= length; i++) {
    if (i > failsAfter) {
      response.destroy();
      return;
    }
    response.write(`data: ${JSON.stringify({ text: `word ${i} `, usage: { total_tokens: PROMPT_TOKENS + i } })}\n\n`);
  }
  response.end("data: [DONE]\n\n");
}

/** Calls such a model; yields the pieces of its answer, each with what the call has used so far. */
export async function* streamFrom(url, body) {
  const response = await fetch(url, { method: "POST", body: JSON.stringify(body) });
  let rest = "";
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const events = (rest + chunk).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.slice("data: ".length);
      if (data === "[DONE]") return;
      const { text, usage } = JSON.parse(data);
      yield { text, tokens: usage.total_tokens };
    }
  }
}
