// Asks a fake model until the tenant's budget has no room, and says what each call has used.

import { createLimiter } from "@headgate/client";
import { startFakeModel, streamFrom } from "./fake-model.mjs";
import { meteredStream, OverBudget } from "./metered-stream.mjs";

const limiter = createLimiter({
  servers: (process.env.HEADGATE ?? "localhost:8081").split(","),
  deadlineMs: 500,
  onFailure: "allow",
  onDegraded: ({ code, message }) => console.warn(`not counted: ${code} ${message}`),
});
const model = await startFakeModel();

for (let call = 1; call <= 6; call++) {
  const asked = { tenant: "acme", maxTokens: 300 };
  const stream = meteredStream(limiter, asked, (maxTokens) =>
    streamFrom(model.url, { max_tokens: maxTokens, wants: 190 }),
  );
  try {
    let words = 0;
    for await (const _text of stream) words++;
    console.log(`call ${call}: ${words} words`);
  } catch (error) {
    if (!(error instanceof OverBudget)) throw error;
    console.log(`call ${call}: ${error.message}`);
  }
}

await model.stop();
limiter.close();
