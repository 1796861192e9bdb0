// What a message costs the server on streams both ways, and in streams of answers: the fast lane and grpc-js in turn, each as a process of
// its own, called by grpc-js. CPU of the server's process per message, whatever the caller takes. `node bench/load/streams.mjs` after a build.

import { fork } from "node:child_process";
import { once } from "node:events";
import { Client, credentials, Server, ServerCredentials } from "@grpc/grpc-js";
import { median, printTable } from "../harness/report.mjs";
import { loadDist } from "./dist.mjs";

const CHAT = "/bench.Echo/Chat";
const LIST = "/bench.Echo/List";
const MESSAGE = Buffer.alloc(100, "a");
const ROUNDS = 5;
const STREAMS = 16;
/** Messages of each stream in a round, and of a chat that are under way. */
const MESSAGES = 4_000;
const UNDER_WAY = 32;
const same = (bytes) => bytes;

/** Sends answers while there is somebody to read them. */
function list(call, send, hasRoom) {
  let left = MESSAGES;
  const more = () => {
    for (; left > 0 && hasRoom(); left--) send(MESSAGE);
    if (left === 0) call.end();
  };
  return more;
}

const SERVERS = {
  "fast-lane": async () => {
    const { serve } = await loadDist("../packages/fast-lane/dist/fast-lane.js");
    const { port } = await serve({
      methods: [
        { path: CHAT, takesMany: true, handle: (bytes, call) => (bytes ? call.answer(bytes) : call.end()) },
        {
          path: LIST,
          takesMany: false,
          handle(_bytes, call) {
            const more = list(
              call,
              (bytes) => call.answer(bytes),
              () => call.unread === 0,
            );
            call.onRead(more);
            more();
          },
        },
      ],
    });
    return port;
  },
  "grpc-js": () => {
    const server = new Server();
    const bytes = {
      requestSerialize: same,
      requestDeserialize: same,
      responseSerialize: same,
      responseDeserialize: same,
    };
    const chat = { path: CHAT, requestStream: true, responseStream: true, ...bytes };
    const answers = { path: LIST, requestStream: false, responseStream: true, ...bytes };
    server.addService(
      { chat, answers },
      {
        chat(call) {
          call.on("data", (message) => call.write(message));
          call.on("end", () => call.end());
        },
        answers(call) {
          let hasRoom = true;
          const more = list(
            call,
            (message) => {
              hasRoom = call.write(message);
            },
            () => hasRoom,
          );
          call.on("drain", () => {
            hasRoom = true;
            more();
          });
          more();
        },
      },
    );
    return new Promise((resolve, reject) =>
      server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
        error ? reject(error) : resolve(port),
      ),
    );
  },
};

const CALLS = {
  "both ways": (client) => {
    const chat = client.makeBidiStreamRequest(CHAT, same, same, {});
    let left = MESSAGES - UNDER_WAY;
    for (let i = 0; i < UNDER_WAY; i++) chat.write(MESSAGE);
    chat.on("data", () => {
      if (left-- > 0) chat.write(MESSAGE);
      else chat.end();
    });
    return once(chat, "end");
  },
  answers: (client) => {
    const answers = client.makeServerStreamRequest(LIST, same, same, MESSAGE, {});
    answers.resume();
    return once(answers, "end");
  },
};

const [name] = process.argv.slice(2);
if (name === undefined) await compare();
else {
  const port = await SERVERS[name]();
  process.on("message", () => process.send({ port, cpu: process.cpuUsage() }));
  process.send({ port });
}

async function compare() {
  const servers = Object.keys(SERVERS).map((each) => fork(import.meta.filename, [each]));
  const ports = await Promise.all(servers.map(async (server) => (await once(server, "message"))[0].port));
  const clients = ports.map((port) => new Client(`127.0.0.1:${port}`, credentials.createInsecure()));
  const usedUs = async (server) => {
    server.send("cpu");
    const [{ cpu }] = await once(server, "message");
    return cpu.user + cpu.system;
  };
  const rows = [];
  for (const [what, call] of Object.entries(CALLS)) {
    const costs = servers.map(() => []);
    for (let round = -1; round < ROUNDS; round++) {
      for (const [i, server] of servers.entries()) {
        const before = await usedUs(server);
        await Promise.all(Array.from({ length: STREAMS }, () => call(clients[i])));
        if (round >= 0) costs[i].push(((await usedUs(server)) - before) / (STREAMS * MESSAGES));
      }
    }
    const [own, others] = costs.map(median);
    const ratio = (others / own).toFixed(1);
    rows.push({ stream: what, "fast lane": own.toFixed(2), "grpc-js": others.toFixed(2), ratio });
  }
  printTable("CPU of the server a message, us", rows);
  for (const client of clients) client.close();
  for (const server of servers) server.kill();
}
