// Certificates of every kind of damage, at start and swapped in while the process runs: what can't be used is refused with
// a sentence, and what was in force before stays.

import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createSecureContext } from "node:tls";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { ConfigError } from "../../src/base/errors.ts";
import { TlsFiles } from "../../src/grpc/transport/tls-files.ts";
import { Authority, type Pair } from "../support/certificates.ts";
import { runs, runsMs } from "../support/runs.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const folder = temporaryFolder("headgate-fuzz-tls");
const names = {
  certFile: join(folder, "cert.pem"),
  keyFile: join(folder, "key.pem"),
  clientCaFile: join(folder, "ca.pem"),
  clientName: undefined,
};
let authority: Authority;
let good: Pair;
let other: Pair;
beforeAll(() => {
  authority = new Authority();
  good = authority.issue("localhost");
  other = new Authority("another").issue("localhost");
});

function writeGood(): void {
  copyFileSync(good.certFile, names.certFile);
  copyFileSync(good.keyFile, names.keyFile);
  writeFileSync(names.clientCaFile, authority.cert);
}

/** What a file may be damaged to. */
const damage = fc.oneof(
  fc.constantFrom<(good: Buffer) => Buffer>(
    () => Buffer.alloc(0),
    () => Buffer.from("\n"),
    () => Buffer.from("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"),
    () => Buffer.from("-----BEGIN PRIVATE KEY-----\n"),
    () => Buffer.alloc(100_000, 0x41),
    (bytes) => bytes.subarray(0, bytes.length >> 1),
    (bytes) => Buffer.concat([bytes, bytes]),
    (bytes) => Buffer.concat([bytes, Buffer.from([0, 0xff, 0xfe])]),
    (bytes) => Buffer.from(bytes.toString().replaceAll("\n", "\r\n")),
    () => good.key,
    () => good.cert,
    () => other.key,
    () => other.cert,
  ),
  fc.uint8Array({ maxLength: 300 }).map((bytes) => () => Buffer.from(bytes)),
  fc.array(fc.tuple(fc.nat(5_000), fc.nat(255)), { minLength: 1, maxLength: 5 }).map((hits) => (bytes: Buffer) => {
    const damaged = Buffer.from(bytes);
    for (const [at, byte] of hits) damaged[at % damaged.length] = byte;
    return damaged;
  }),
);
const which = fc.constantFrom("certFile", "keyFile", "clientCaFile");

function harm(file: "certFile" | "keyFile" | "clientCaFile", apply: (good: Buffer) => Buffer): void {
  const before = { certFile: good.cert, keyFile: good.key, clientCaFile: authority.cert }[file];
  writeFileSync(names[file], apply(before));
}

/** Throws unless a server could take what is in force. */
function serveWith({ options }: TlsFiles): void {
  createSecureContext(options);
}

test(
  "at start they are refused with a sentence that quotes none of them, or can serve",
  () => {
    fc.assert(
      fc.property(which, damage, (file, apply) => {
        writeGood();
        harm(file, apply);
        try {
          const files = new TlsFiles(names, { renewed: () => undefined, refused: () => undefined });
          serveWith(files);
          files.close();
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError);
          const { message } = error as ConfigError;
          expect(message).toMatch(/^the gRPC port's certificates can't be used: \S/);
          expect(message.length).toBeLessThan(500);
          for (const line of good.key.toString().split("\n").slice(1, -2)) expect(message).not.toContain(line);
        }
      }),
      { numRuns: runs(80) },
    );
  },
  runsMs(20_000),
);

// Promise(input): Damaged, expired, incomplete or not yet valid certificates never replace good ones.
test(
  "swapped in while the process runs, in any order, what is in force always serves",
  () => {
    writeGood();
    const said: string[] = [];
    const files = new TlsFiles(names, { renewed: () => said.push("renewed"), refused: (why) => said.push(why) });
    fc.assert(
      fc.property(fc.array(fc.tuple(which, damage), { minLength: 1, maxLength: 4 }), (steps) => {
        for (const [file, apply] of steps) {
          harm(file, apply);
          files.refresh();
          serveWith(files);
        }
        said.length = 0;
        writeGood();
        files.refresh();
        files.refresh();
        // Whatever came between, good files are back in force, or were never out of it.
        expect(said.filter((line) => line !== "renewed")).toEqual([]);
        expect(files.options).toMatchObject({ cert: good.cert, key: good.key });
      }),
      { numRuns: runs(30) },
    );
    files.close();
  },
  runsMs(20_000),
);
