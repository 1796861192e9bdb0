// Script calls of one take each over many connections, at a given rate: what Redis gets from many processes of a fleet.

import { once } from "node:events";
import { connect } from "node:net";
import { TakeGroup } from "../../dist/engine/domain/take.js";
import { RedisBatch } from "../../dist/stores/redis/redis-batch.js";
import { loadScripts } from "../../dist/stores/redis/scripts.js";
import { bucketOf } from "./limits.mjs";

/** Opens the connections; `drive` sends at random distances, as independent callers do, and resolves to how many were answered. */
export async function openLoneCalls({ port, connections, keys }) {
  const { text, sha } = loadScripts().takes;
  const sockets = await Promise.all(
    Array.from({ length: connections }, async () => {
      const socket = connect({ port, host: "127.0.0.1", noDelay: true });
      await once(socket, "connect");
      return socket;
    }),
  );
  await ask(sockets[0], commandOf(["SCRIPT", "LOAD", text]));
  const limit = bucketOf({ amount: 4e6, burst: 4e9 });
  const commands = Array.from({ length: keys }, (_, i) => {
    const group = new TakeGroup();
    group.add(limit).bucketKey = `{bench|user=user-${i}${limit.keySuffix}`;
    const batch = new RedisBatch();
    batch.add(group, undefined);
    return commandOf(["EVALSHA", sha, ...batch.encode(0, { latestOf: () => 0, bucketTimeUs: () => 0 })]);
  });
  // All answers have one length: doubles.
  const answerBytes = (await ask(sockets[0], commands[0])).length;
  let answered = 0;
  let odd = 0;
  for (const socket of sockets) {
    let bytes = 0;
    socket.on("data", (chunk) => {
      if (chunk[0] === 0x2d) odd++;
      bytes += chunk.length;
      answered += Math.floor(bytes / answerBytes);
      bytes %= answerBytes;
    });
  }
  return {
    async drive(rate, seconds) {
      const before = answered;
      let sent = 0;
      let due = performance.now();
      const end = due + seconds * 1_000;
      while (performance.now() < end) {
        for (
          const now = performance.now();
          due <= now && due < end;
          due += (-Math.log(1 - Math.random()) * 1_000) / rate
        ) {
          sockets[Math.floor(Math.random() * connections)].write(commands[Math.floor(Math.random() * keys)]);
          sent++;
        }
        await new Promise(setImmediate);
      }
      while (answered - before < sent) await new Promise(setImmediate);
      if (odd > 0) throw new Error("Redis answered with an error");
      return sent;
    },
    close() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

async function ask(socket, command) {
  socket.write(command);
  const [answer] = await once(socket, "data");
  if (answer[0] === 0x2d) throw new Error(answer.toString());
  return answer;
}

function commandOf(parts) {
  const pieces = [Buffer.from(`*${parts.length}\r\n`)];
  for (const part of parts) {
    const bytes = Buffer.from(part, "latin1");
    pieces.push(Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from("\r\n"));
  }
  return Buffer.concat(pieces);
}
