// Requests to the HTTP port whose bodies never come whole.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { beforeAll, expect, test } from "vitest";
import { endWithTest } from "../support/ends.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";

const BODY_BYTES_MAX = 32_768;
const REFUSED = "HTTP/1.1 413 Payload Too Large";

let service: ServiceProcess;
const sockets: Socket[] = [];
beforeAll(async () => {
  service = await startService({ RULES_DIR: "deploy/rules" });
});

/** Sends the head of a request with a body of `length` bytes, and the first `sent` bytes of that. */
async function begin(length: number, sent: number): Promise<Socket> {
  const socket = connect(service.httpPort, "127.0.0.1");
  socket.on("error", () => undefined);
  endWithTest(() => socket.destroy());
  sockets.push(socket);
  await once(socket, "connect");
  socket.write(`POST /json HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${length}\r\n\r\n${" ".repeat(sent)}`);
  return socket;
}

const ask = (padding: number) =>
  fetch(`http://127.0.0.1:${service.httpPort}/json`, {
    method: "POST",
    body: `${" ".repeat(padding)}{"domain":"edge","descriptors":[{"entries":[{"key":"remote_address","value":"192.0.2.1"}]}]}`,
  });

/** Sends a whole request whose body begins with `blanks` blanks, each in a chunk of its own. Resolves to the head of the answer. */
async function askInChunks(blanks: number): Promise<string> {
  const socket = connect(service.httpPort, "127.0.0.1");
  sockets.push(socket);
  const chunks = "1\r\n \r\n".repeat(blanks);
  const json = '{"domain":"edge","descriptors":[{}]}';
  const head = "POST /json HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
  socket.write(`${head}${chunks}${json.length.toString(16)}\r\n${json}\r\n0\r\n\r\n`);
  const [answer] = await once(socket, "data");
  return String(answer).split("\r\n", 1)[0] as string;
}

async function residentMb(): Promise<number> {
  const page = await (await fetch(`http://127.0.0.1:${service.httpPort}/metrics`)).text();
  return Number(/^process_resident_memory_bytes (\S+)/m.exec(page)?.[1]) / 2 ** 20;
}

// Promise(grpc): Requests to /json whose bodies never come keep nobody out, and hold bounded memory.
test("heads without bodies, and large bodies without ends, keep nobody out", async () => {
  for (let i = 0; i < 1_100; i++) await begin(100, 0);
  expect((await ask(0)).status).toBe(200);
  for (let i = 0; i < 640; i++) await begin(BODY_BYTES_MAX, BODY_BYTES_MAX - 100);
  await expect.poll(() => sockets.filter(({ destroyed }) => destroyed).length).toBeGreaterThan(100);
  expect([(await ask(30_000)).status, (await ask(0)).status]).toEqual([200, 200]);
});

test("a body in 1,024 chunks of one byte is read, and one in more is refused at once", async () => {
  expect([await askInChunks(1_023), await askInChunks(1_024)]).toEqual(["HTTP/1.1 200 OK", REFUSED]);
});

test("bodies in chunks of one byte hold no more memory than their bytes", async () => {
  const before = await residentMb();
  let most = before;
  let answered = 0;
  const answers = Array.from({ length: 32 }, async () => {
    const answer = await askInChunks(25_000);
    answered++;
    return answer;
  });
  while (answered < answers.length) most = Math.max(most, await residentMb());
  expect(new Set(await Promise.all(answers))).toEqual(new Set([REFUSED]));
  expect(most - before).toBeLessThan(64);
});
