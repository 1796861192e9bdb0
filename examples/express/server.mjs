// An Express application whose callers are limited by address.

import { addressOf, createLimiter, expressLimit } from "@headgate/client";
import express from "express";

const limiter = createLimiter({
  servers: (process.env.HEADGATE ?? "localhost:8081").split(","),
  deadlineMs: 50,
  onFailure: "allow",
  onDegraded: ({ code, message }) => console.warn(`not checked: ${code} ${message}`),
});

const app = express();
// Health checks are not limited: undefined asks nothing.
app.use(
  expressLimit(limiter, ({ path, ip }) =>
    path === "/healthz" ? undefined : { domain: "edge", descriptors: [{ remote_address: addressOf(ip) }] },
  ),
);
app.get("/", (_request, response) => {
  response.send("hello\n");
});
app.get("/healthz", (_request, response) => {
  response.send("ok\n");
});

const server = app.listen(Number(process.env.PORT ?? 3000));
process.once("SIGTERM", () => {
  server.close(() => limiter.close());
});
