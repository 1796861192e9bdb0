// A real Envoy Gateway on this machine, without Kubernetes: its control plane and its Envoy, Headgate as the rate limit service
// that it feeds by xDS, and an upstream that answers 200. Ends with Ctrl-C.
//
//   node test/gateway/bed.mjs [--resources FOLDER] [--ports 8888,...] [--wait SECONDS] [--rules FOLDER]
//
// FOLDER holds Gateways (named `eg`), routes and policies as YAML (default: test/gateway/example); edited files count at once.
// Routes lead to the Backend `upstream`. --ports are the listeners that must answer before it says ready. The gateway's own ports
// are fixed, so one test bed runs on a machine at a time: --wait waits for another one to end. --rules has files of Headgate's, which stand
// beside the gateway's rules.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect, createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { bedResources, gatewayConfiguration } from "./bed-resources.mjs";
import { ENVOY, ENVOY_VERSION, fetchPrograms, GATEWAY } from "./fetch.mjs";

const ROOT = resolve(import.meta.dirname, "../..");
/** Held as long as a test bed runs; nobody else's. */
const TURN_PORT = 18_009;
/** What the gateway listens on, whatever it is told: xDS for Envoy and for us, Wasm, its health. */
const GATEWAY_PORTS = [18_000, 18_001, 18_002, 8_081];
/** Only for what never comes: a busy machine may take long. */
const START_MS_MAX = 120_000;
const STOP_MS_MAX = 15_000;
const LOOK_MS = 100;

const { values } = parseArgs({
  options: {
    resources: { type: "string", default: join(import.meta.dirname, "example") },
    ports: { type: "string", default: "8888" },
    wait: { type: "string", default: "0" },
    rules: { type: "string" },
  },
});

/** How to end what was started, the last first. */
const ends = [];
let isEnding = false;

async function main() {
  fetchPrograms();
  await takeTurn(Number(values.wait) * 1_000);
  const folder = mkdtempSync(join(tmpdir(), "headgate-gateway-"));
  ends.push(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const home = join(folder, "home");
  await ran(GATEWAY, ["certgen", "--local", "--config-home", home]);
  mkdirSync(join(home, "envoy-versions", ENVOY_VERSION, "bin"), { recursive: true });
  symlinkSync(ENVOY, join(home, "envoy-versions", ENVOY_VERSION, "bin/envoy"));
  const upstream = await startUpstream();
  const headgate = await startHeadgate(folder);
  const own = join(folder, "bed");
  mkdirSync(own);
  writeFileSync(
    join(own, "bed.yaml"),
    bedResources({ home, envoyVersion: ENVOY_VERSION, upstream, grpc: headgate.grpc }),
  );
  const config = join(folder, "envoy-gateway.yaml");
  writeFileSync(config, gatewayConfiguration({ home, paths: [own, resolve(values.resources)] }));
  startGateway(folder, config);
  await until("Envoy Gateway is not ready", async () => (await fetch("http://127.0.0.1:8081/readyz")).ok);
  for (const port of values.ports.split(",").map(Number)) {
    await until(`Envoy does not listen on ${port}`, () => connects(port));
  }
  await until("Headgate has no rules of the gateway's", async () => {
    const page = await (await fetch(`http://127.0.0.1:${headgate.http}/config`)).json();
    return page.rules.control_plane.version !== null && page.rules.control_plane.state === "connected";
  });
  return { ready: true, folder, headgate: headgate.http };
}

/** Waits until no other test bed runs, and says which port of the gateway's is taken by something else. */
async function takeTurn(waitMs) {
  const endMs = performance.now() + waitMs;
  for (;;) {
    const turn = await listens(TURN_PORT);
    if (turn !== undefined) {
      ends.push(() => turn.close());
      break;
    }
    if (performance.now() >= endMs)
      throw new Error(`another test bed runs on this machine: port ${TURN_PORT} is taken`);
    await sleep(1_000);
  }
  for (const port of GATEWAY_PORTS) {
    const server = await listens(port);
    if (server === undefined) throw new Error(`Envoy Gateway needs port ${port}, which is taken`);
    server.close();
    await once(server, "close");
  }
}

async function listens(port) {
  const server = createTcpServer().listen(port, "127.0.0.1");
  return await once(server, "listening").then(
    () => server,
    () => undefined,
  );
}

async function connects(port) {
  const socket = connect(port, "127.0.0.1");
  return await once(socket, "connect").then(
    () => socket.destroy() === socket,
    () => false,
  );
}

async function startUpstream() {
  const server = createServer((_request, response) => response.end("hello\n")).listen(0, "127.0.0.1");
  await once(server, "listening");
  ends.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return server.address().port;
}

/** Headgate as the gateway deploys it, on free ports, with its counts in memory; resolves to the ports. */
async function startHeadgate(folder) {
  const { always, metrics } = JSON.parse(readFileSync(join(import.meta.dirname, "deployment.json"), "utf8"));
  const certs = join(folder, "home/certs/envoy-rate-limit");
  const mounted = Object.entries({ ...always, ...metrics }).map(([name, value]) => [
    name,
    value.replace(/^\/certs\//, `${certs}/`),
  ]);
  const env = {
    ...Object.fromEntries(mounted),
    PATH: process.env.PATH,
    TMPDIR: process.env.TMPDIR ?? "/tmp",
    CONFIG_GRPC_XDS_SERVER_URL: "localhost:18001",
    CONFIG_GRPC_XDS_SERVER_TLS_SAN: "envoy-gateway",
    CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: "500ms",
    BACKEND_TYPE: "memory",
    PROMETHEUS_ADDR: ":0",
    PORT: "0",
    GRPC_PORT: "0",
    DEBUG_PORT: "0",
    SHUTDOWN_DELAY: "0s",
    ...(values.rules === undefined ? {} : { RULES_DIR: resolve(values.rules) }),
    ...(process.env.HEADGATE_TEST_RUN === undefined ? {} : { HEADGATE_TEST_RUN: process.env.HEADGATE_TEST_RUN }),
  };
  const child = start("Headgate", process.execPath, [join(ROOT, "dist/main.js"), "serve"], { env });
  const log = createWriteStream(join(folder, "headgate.log"));
  child.stderr.pipe(log);
  return await new Promise((found) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      log.write(`${line}\n`);
      const { msg, grpc, http } = JSON.parse(line);
      const portOf = (address) => Number(address.split(":").at(-1));
      if (msg === "listening") found({ grpc: portOf(grpc), http: portOf(http) });
    });
  });
}

function startGateway(folder, config) {
  const child = start("Envoy Gateway", GATEWAY, ["server", "--config-path", config], { env: process.env });
  const log = createWriteStream(join(folder, "gateway.log"));
  child.stdout.pipe(log);
  child.stderr.pipe(log);
}

/** Starts a program in a process group of its own, which ends with the test bed; one that ends before ends the test bed. */
function start(name, program, args, { env }) {
  const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  const gone = once(child, "exit");
  void gone.then(([code]) => {
    if (!isEnding) void end(new Error(`${name} ended with ${code}`));
  });
  ends.push(async () => {
    const timer = setTimeout(() => kill(child, "SIGKILL"), STOP_MS_MAX);
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
    await gone;
    clearTimeout(timer);
    // What it has started itself.
    kill(child, "SIGKILL");
  });
  return child;
}

function kill(child, signal) {
  try {
    process.kill(-child.pid, signal);
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

async function ran(program, args) {
  const child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"] });
  const said = [];
  child.stderr.on("data", (chunk) => said.push(chunk));
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`${program} ${args.join(" ")} ended with ${code}: ${Buffer.concat(said)}`);
}

async function until(otherwise, isSo) {
  const endMs = performance.now() + START_MS_MAX;
  while (!isEnding) {
    if (await isSo().catch(() => false)) return;
    if (performance.now() > endMs) throw new Error(`${otherwise} after ${START_MS_MAX / 1_000} s`);
    await sleep(LOOK_MS);
  }
}

async function end(error) {
  if (isEnding) return;
  isEnding = true;
  if (error !== undefined) {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  }
  for (const each of ends.reverse()) await each();
}

for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => void end());
main().then((ready) => isEnding || process.stdout.write(`${JSON.stringify(ready)}\n`), end);
