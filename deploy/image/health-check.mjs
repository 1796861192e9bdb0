// Ends with 0 if the service in this container answers its health page with 200, with 1 otherwise.
//
//   node health-check.mjs [/livez | /readyz]        default: /livez

const { HOST = "", PORT = "" } = process.env;
const WAIT_MS = 2_000;
const path = process.argv[2] ?? "/livez";

// The wildcard address can't be called.
const host = ["", "0.0.0.0", "::"].includes(HOST) ? "127.0.0.1" : HOST;
const url = `http://${host.includes(":") ? `[${host}]` : host}:${PORT || 8080}${path}`;

try {
  const { status } = await fetch(url, { signal: AbortSignal.timeout(WAIT_MS) });
  if (status !== 200) fail(`${url} answered ${status}`);
} catch (error) {
  fail(`${url} did not answer: ${error.cause?.message ?? error.message}`);
}

function fail(why) {
  process.stderr.write(`${why}\n`);
  process.exitCode = 1;
}
