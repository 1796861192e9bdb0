// A streaming call to a model that is reserved before it begins and settled by the tokens that came, however it ends.

/** The budget has no room; `retryAfterSeconds` says when to come back, unless it never has. */
export class OverBudget extends Error {
  constructor({ reason, retryAfterSeconds }) {
    super(`${reason}${retryAfterSeconds === undefined ? "" : `: again in ${retryAfterSeconds} s`}`);
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/**
 * Yields the pieces of the answer. `openStream(maxTokens)` begins the call and yields `{ text, tokens }`, where `tokens` is what
 * the call has used so far, its prompt included. Throws OverBudget where the tenant has no room for `maxTokens`.
 */
export async function* meteredStream(limiter, { tenant, maxTokens }, openStream) {
  const held = await limiter.reserve({ domain: "models", entries: { tenant }, amount: maxTokens });
  if (!held.allowed) throw new OverBudget(held);
  let used = 0;
  try {
    // The rule may hold less than was asked for: the model must not use more than is held. 0: nobody counts.
    for await (const { text, tokens } of openStream(held.reserved || maxTokens)) {
      used = tokens;
      yield text;
    }
  } finally {
    // Also where the model fails, or where who reads has had enough: what came until then is what it cost.
    await held.settle(used);
  }
}
