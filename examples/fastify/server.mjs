// A Fastify application: all callers are limited by address, and one route costs more.

import { addressOf, createLimiter, fastifyLimit } from "@headgate/client";
import Fastify from "fastify";

const limiter = createLimiter({
  servers: (process.env.HEADGATE ?? "localhost:8081").split(","),
  deadlineMs: 50,
  onFailure: "allow",
  onDegraded: ({ code, message }) => console.warn(`not checked: ${code} ${message}`),
});

const byAddress = (hits) =>
  fastifyLimit(limiter, ({ ip }) => ({ domain: "edge", hits, descriptors: [{ remote_address: addressOf(ip) }] }));

const app = Fastify();
app.get("/", { onRequest: byAddress(1) }, async () => "hello\n");
app.get("/report", { onRequest: byAddress(10) }, async () => "a costly report\n");
app.addHook("onClose", async () => limiter.close());

await app.listen({ port: Number(process.env.PORT ?? 3000) });
process.once("SIGTERM", () => app.close());
