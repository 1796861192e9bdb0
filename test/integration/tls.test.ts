// TLS and mutual TLS on the gRPC port: who gets in, and certificates that change while it serves.

import { once } from "node:events";
import { copyFileSync } from "node:fs";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { join } from "node:path";
import { connect } from "node:tls";
import { Client, credentials, status } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { SHOULD_RATE_LIMIT_PATH } from "../../src/grpc/transport/load-proto.ts";
import { type TlsFileNames, TlsFiles } from "../../src/grpc/transport/tls-files.ts";
import type { UnaryHandler } from "../../src/grpc/unary.ts";
import { Authority, type Pair } from "../support/certificates.ts";
import { closedWithTest } from "../support/ends.ts";
import { callRaw, openRawClient, startTestServer, type TestServer } from "../support/grpc-test-server.ts";
import { messageOf } from "../support/http2-peer.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const ECHO: UnaryHandler = { handle: (message, _deadlineUs, reply) => reply.ok(message) };
const authority = new Authority();
const stranger = new Authority("stranger");

interface Running {
  readonly test: TestServer;
  readonly files: TlsFiles;
  readonly renewed: string[];
}

let files = 0;

async function serve(names: Partial<TlsFileNames> = {}): Promise<Running> {
  const pair = authority.issue("headgate.test");
  const certFile = join(authority.directory, `live-${++files}.crt`);
  const keyFile = join(authority.directory, `live-${files}.key`);
  copyFileSync(pair.certFile, certFile);
  copyFileSync(pair.keyFile, keyFile);
  const renewed: string[] = [];
  const tls = new TlsFiles(
    { certFile, keyFile, clientCaFile: undefined, clientName: undefined, ...names },
    { renewed: (validTo) => renewed.push(validTo), refused: () => undefined },
  );
  closedWithTest(tls);
  return { test: await startTestServer(ECHO, { tls }), files: tls, renewed };
}

/** The status of one call by a client with this certificate, trusting this authority. */
async function codeOf({ test: { target } }: Running, client?: Pair, trusted = authority): Promise<number> {
  const secure = credentials.createSsl(trusted.cert, client?.key, client?.cert);
  const connection = new Client(target, secure, { "grpc.ssl_target_name_override": "headgate.test" });
  const { code } = await callRaw(connection, Buffer.from("x"), { deadlineMs: 2_000 });
  connection.close();
  return code;
}

describe("TLS", () => {
  test("serves clients that trust the authority, and no plaintext", async () => {
    const server = await serve();
    expect(await codeOf(server)).toBe(status.OK);
    const plain = openRawClient(server.test.target);
    expect((await callRaw(plain, Buffer.from("x"), { deadlineMs: 1_000 })).code).not.toBe(status.OK);
  });

  // Promise(grpc): Renewed certificates serve new connections.
  test("puts renewed files in force for new connections", async () => {
    const server = await serve();
    const renewed = stranger.issue("headgate.test");
    copyFileSync(renewed.keyFile, server.files.names.keyFile);
    copyFileSync(renewed.certFile, server.files.names.certFile);
    server.files.refresh();
    expect(server.renewed).toHaveLength(1);
    expect(await codeOf(server, undefined, stranger)).toBe(status.OK);
    expect(await codeOf(server)).not.toBe(status.OK);
  });
});

describe("mutual TLS", () => {
  test("lets in clients of the named authority only", async () => {
    const server = await serve({ clientCaFile: authority.certFile });
    expect(await codeOf(server, authority.issue("envoy.test"))).toBe(status.OK);
    expect(await codeOf(server, stranger.issue("envoy.test"))).not.toBe(status.OK);
    expect(await codeOf(server)).not.toBe(status.OK);
  });

  test.each([
    { name: "lets in the client that carries the name", carried: ["other.test", "envoy.test"], code: status.OK },
    { name: "turns other clients away", carried: ["other.test"], code: status.UNAUTHENTICATED },
  ])("with a required name $name", async ({ carried, code }) => {
    const server = await serve({ clientCaFile: authority.certFile, clientName: "envoy.test" });
    expect(await codeOf(server, authority.issue(...carried))).toBe(code);
  });
});

describe("authorities that are no host", () => {
  /** What calls with these authorities got, one after the other on one connection of nghttp2's. */
  async function statusesOf(session: ClientHttp2Session, authorities: readonly string[]): Promise<unknown[]> {
    closedWithTest(session);
    const statuses: unknown[] = [];
    for (const authority of authorities) {
      const stream = session.request({ ...CALL, ":authority": authority });
      stream.end(messageOf("hello")).resume();
      stream.on("trailers", (trailers) => statuses.push(trailers["grpc-status"]));
      stream.on("response", (headers) => {
        if (headers["grpc-status"] !== undefined) statuses.push(headers["grpc-status"]);
      });
      await once(stream, "close");
    }
    return statuses;
  }
  const CALL = {
    ":method": "POST",
    ":path": SHOULD_RATE_LIMIT_PATH,
    "content-type": "application/grpc",
    te: "trailers",
  };
  // More than a header table holds, and each of them again.
  const hosts = Array.from({ length: 60 }, (_, i) => `outbound|8081|v${i}|headgate.${"ns.".repeat(i % 20)}svc`);
  const authorities = ["headgate.test", ...hosts, ...hosts.slice(-20), "a_b", ...hosts].flatMap((one) => [one, one]);

  test("are served in plaintext", async () => {
    const { target } = await startTestServer(ECHO);
    expect(await statusesOf(connectHttp2(`http://${target}`), authorities)).toEqual(authorities.map(() => "0"));
  });

  test.each([
    { carried: ["envoy.test"], status: "0" },
    { carried: ["other.test"], status: "16" },
  ])("get $status by mutual TLS from a client named $carried", async ({ carried, status: expected }) => {
    const server = await serve({ clientCaFile: authority.certFile, clientName: "envoy.test" });
    const { key, cert } = authority.issue(...carried);
    const secure = { ca: authority.cert, key, cert, servername: "headgate.test" };
    const session = connectHttp2(`https://${server.test.target}`, secure);
    expect(await statusesOf(session, authorities)).toEqual(authorities.map(() => expected));
  });
});

describe("the whole service", () => {
  let app: TestApp | undefined;

  async function start(pair: Pair): Promise<{ readonly certFile: string; readonly keyFile: string }> {
    const [certFile, keyFile] = [join(authority.directory, "service.crt"), join(authority.directory, "service.key")];
    copyFileSync(pair.certFile, certFile);
    copyFileSync(pair.keyFile, keyFile);
    app = await startTestApp("domain: edge\n", {
      GRPC_SERVER_USE_TLS: "true",
      GRPC_SERVER_TLS_CERT: certFile,
      GRPC_SERVER_TLS_KEY: keyFile,
    });
    return { certFile, keyFile };
  }

  const json = async (path: string) => (await (await app?.http(path))?.json()) as Record<string, unknown>;
  const metric = async (name: string) =>
    Number(new RegExp(`^${name} (\\S+)$`, "m").exec((await (await app?.http("/metrics"))?.text()) ?? "")?.[1]);

  test("stays ready with a renewed certificate that it refuses, and says what is wrong with it on its pages", async () => {
    const { keyFile } = await start(authority.issue("headgate.test"));
    expect(await metric("headgate_tls_last_change_success")).toBe(1);
    expect(await metric("headgate_tls_certificate_remaining_seconds")).toBeGreaterThan(86_000);
    copyFileSync(authority.issue("headgate.test").keyFile, keyFile);
    const says = expect.stringMatching(/expected the private key of the certificate in .*got a different key/);
    await expect
      .poll(() => json("/readyz"), { timeout: 15_000, interval: 200 })
      .toMatchObject({ status: "ready, degraded", degraded: { certificates: says } });
    expect(await json("/config")).toMatchObject({
      tls: { subject: "CN=headgate.test", fault: null, last_error: says },
    });
    expect(await metric("headgate_tls_last_change_success")).toBe(0);
    expect(app?.log.filter((line) => line.includes("changed certificates rejected"))).toHaveLength(1);
  });

  test("serves with a certificate that has expired, and is loud about it", async () => {
    await start(authority.issueFor(-1, "headgate.test"));
    expect(await json("/readyz")).toMatchObject({ degraded: { certificates: expect.stringMatching(/ expired at 2/) } });
    expect(await metric("headgate_tls_certificate_remaining_seconds")).toBeLessThan(0);
    expect(app?.log.filter((line) => line.includes("callers may reject the certificates"))).toHaveLength(1);
    const socket = connect({
      port: app?.grpcPort ?? 0,
      host: "127.0.0.1",
      ALPNProtocols: ["h2"],
      ca: authority.cert,
      servername: "headgate.test",
      rejectUnauthorized: false,
    });
    await once(socket, "secureConnect");
    expect(socket.authorizationError).toBe("CERT_HAS_EXPIRED");
  });
});
