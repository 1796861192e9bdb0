// Which certificates come in force when files change, and what is said of those that don't.

import { X509Certificate } from "node:crypto";
import { unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { WallClock } from "../../../../src/base/clock.ts";
import { TlsFiles } from "../../../../src/grpc/transport/tls-files.ts";
import { Authority, type Pair } from "../../../support/certificates.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const DAY_S = 86_400;
const folder = temporaryFolder("headgate-tls-files");
const names = {
  certFile: join(folder, "tls.crt"),
  keyFile: join(folder, "tls.key"),
  clientCaFile: undefined as string | undefined,
  clientName: undefined,
};
const authority = new Authority();
const short = authority.issueFor(1, "headgate.test");
const long = authority.issueFor(30, "headgate.test");
const longer = authority.issueFor(40, "headgate.test");
const through = authority.issueThrough("between", "headgate.test");
const whole: Pair = { ...through.own, cert: Buffer.concat([through.own.cert, through.between]) };

let clock: ManualClock;
let said: string[];
beforeEach(() => {
  // The certificates are of today; an hour later none is too young.
  clock = new ManualClock(new WallClock().nowUs() + 3_600_000_000);
  said = [];
});

function write({ cert, key }: { readonly cert: Buffer; readonly key: Buffer }): void {
  writeFileSync(names.certFile, cert);
  writeFileSync(names.keyFile, key);
}

function open(first: Pair, clientCa?: Buffer): TlsFiles {
  write(first);
  const clientCaFile = clientCa === undefined ? undefined : join(folder, "ca.crt");
  if (clientCaFile !== undefined && clientCa !== undefined) writeFileSync(clientCaFile, clientCa);
  const observer = { renewed: () => said.push("renewed"), refused: (why: string) => said.push(why) };
  const files = new TlsFiles({ ...names, clientCaFile }, observer, { clock, pollMs: 3_600_000 });
  files.close();
  return files;
}

/** The same with a later start written into it; nothing here looks at signatures. */
function startingIn(days: number, { cert, key }: Pair): { readonly cert: Buffer; readonly key: Buffer } {
  const der = Buffer.from(new X509Certificate(cert).raw);
  const start = new Date(clock.nowUs() / 1e3 + days * DAY_S * 1e3)
    .toISOString()
    .replace(/[-:T]|\.\d+/g, "")
    .slice(2);
  const [tag, length] = [0x17, start.length];
  der.write(start, der.indexOf(Buffer.from([tag, length])) + 2, "latin1");
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return { cert: Buffer.from(`-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`), key };
}

function swapIn(files: TlsFiles, pair: { readonly cert: Buffer; readonly key: Buffer }): void {
  write(pair);
  files.refresh();
}

// Promise(input): Damaged, expired, incomplete or not yet valid certificates never replace good ones.
test("an expired certificate does not replace one that is valid, and the sentence says which, where and since when", () => {
  const files = open(long);
  clock.advanceSeconds(2 * DAY_S);
  swapIn(files, short);
  files.refresh();
  expect(files.options.cert).toEqual(long.cert);
  expect(said).toHaveLength(1);
  expect(said[0]).toMatch(
    new RegExp(`^the certificate in ${names.certFile} \\(CN=headgate.test\\) expired at 20\\d\\d-`),
  );
  expect(files.status()).toMatchObject({ refusals: 1, renewals: 0, refusal: said[0], fault: undefined });
});

// Promise(input): A certificate that is not valid yet is used once it is.
test("a certificate that is not valid yet comes in force when its time has come, without another change", () => {
  const files = open(long);
  swapIn(files, startingIn(2, longer));
  expect(said).toEqual([expect.stringMatching(/ is not valid before 20\d\d-/)]);
  clock.advanceSeconds(2 * DAY_S);
  files.refresh();
  expect(said).toHaveLength(2);
  expect(files.status()).toMatchObject({ renewals: 1, refusal: undefined, fault: undefined });
});

test("while the one in force is expired too, the newest files are taken", () => {
  const files = open(short);
  clock.advanceSeconds(50 * DAY_S);
  swapIn(files, long);
  expect(files.options.cert).toEqual(long.cert);
  expect(files.status().fault).toMatch(/expired at/);
});

test("an expired one that waits is taken no sooner than the one in force expires", () => {
  const files = open(long);
  clock.advanceSeconds(2 * DAY_S);
  swapIn(files, short);
  clock.advanceSeconds(30 * DAY_S);
  files.refresh();
  expect(files.options.cert).toEqual(short.cert);
});

test.each([
  {
    name: "its last certificate is cut off",
    cert: whole.cert.subarray(0, whole.cert.length - 40),
    says: /cut off \(number 2\)/,
  },
  {
    name: "its issuer is no longer there",
    cert: through.own.cert,
    says: /is cut: the certificate of the issuer \(CN=between\) is no/,
  },
  {
    name: "its other certificate is a stranger's",
    cert: Buffer.concat([through.own.cert, long.cert]),
    says: /is cut: it lacks the certificate of the issuer \(CN=between\)/,
  },
])("a chain is refused when $name", ({ cert, says }) => {
  const files = open(whole);
  swapIn(files, { cert, key: through.own.key });
  expect(files.options.cert).toEqual(whole.cert);
  expect(said).toEqual([expect.stringMatching(says)]);
});

test("a chain of one is taken where there never was more, and one that repeats its first", () => {
  const files = open(long);
  swapIn(files, longer);
  swapIn(files, { cert: Buffer.concat([long.cert, long.cert]), key: long.key });
  expect(said).toEqual(["renewed", "renewed"]);
});

test("the first of a chain to expire is what counts, and a root in it does not", () => {
  const root = Buffer.concat([long.cert, authority.cert]);
  const days = (pair: Pair) => Math.round((open(pair).status().validToUs - clock.nowUs()) / 1e6 / DAY_S);
  expect([days(whole), days({ ...long, cert: root })]).toEqual([2, 30]);
});

test("files that are back to what is in force are no longer refused; the same trouble is then reported again", () => {
  const files = open(long);
  unlinkSync(names.keyFile);
  files.refresh();
  expect(files.status().refusal).toMatch(/tls\.key/);
  swapIn(files, long);
  expect(files.status()).toMatchObject({ refusal: undefined, renewals: 0 });
  unlinkSync(names.keyFile);
  files.refresh();
  expect(files.status().refusals).toBe(2);
});

test("authorities for clients that have all expired don't replace those that are valid", () => {
  const files = open(long, new Authority("lasting").issueFor(30).cert);
  clock.advanceSeconds(3 * DAY_S);
  writeFileSync(join(folder, "ca.crt"), authority.cert);
  files.refresh();
  expect(said).toEqual([`no authority of ${join(folder, "ca.crt")} is valid now, so no client certificate can be`]);
});
