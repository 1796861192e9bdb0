// A Fastify application with @fastify/rate-limit, whose limits hold over all its processes.

import rateLimit from "@fastify/rate-limit";
import { createLimiter } from "@headgate/client";
import { headgateStore } from "@headgate/client/fastify-rate-limit";
import Fastify from "fastify";

const limiter = createLimiter({
  servers: (process.env.HEADGATE ?? "localhost:8081").split(","),
  onDegraded: ({ code, message }) => console.warn(`not checked: ${code} ${message}`),
});

const app = Fastify();
await app.register(rateLimit, {
  timeWindow: "1 hour",
  max: 50,
  store: headgateStore(limiter, { domain: "edge", entry: "fastify" }),
});
app.get("/", async () => "hello\n");
// A route with a limit of its own is counted apart.
app.get("/report", { config: { rateLimit: { max: 5 } } }, async () => "a costly report\n");
app.addHook("onClose", async () => limiter.close());

await app.listen({ port: Number(process.env.PORT ?? 3000) });
process.once("SIGTERM", () => app.close());
