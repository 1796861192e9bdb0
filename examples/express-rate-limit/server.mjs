// An Express application with express-rate-limit, whose limit holds over all its processes.

import { createLimiter } from "@headgate/client";
import { headgateStore } from "@headgate/client/express-rate-limit";
import express from "express";
import { rateLimit } from "express-rate-limit";

const limiter = createLimiter({
  servers: (process.env.HEADGATE ?? "localhost:8081").split(","),
  onDegraded: ({ code, message }) => console.warn(`not checked: ${code} ${message}`),
});

const app = express();
app.get("/healthz", (_request, response) => {
  response.send("ok\n");
});
app.use(
  rateLimit({ windowMs: 3_600_000, limit: 50, store: headgateStore(limiter, { domain: "edge", entry: "express" }) }),
);
app.get("/", (_request, response) => {
  response.send("hello\n");
});

const server = app.listen(Number(process.env.PORT ?? 3000));
process.once("SIGTERM", () => {
  server.close(() => limiter.close());
});
