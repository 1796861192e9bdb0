// Certificates of a test's own, made by openssl: an authority, and what it vouches for.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./temporary-folder.ts";

export interface Pair {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** Signs certificates; each test's authorities are strangers to each other. */
export class Authority {
  readonly directory = temporaryFolder("headgate-tls");
  readonly certFile: string;
  readonly #keyFile: string;
  #serial = 1;

  /** Signs itself, unless it is given what another has signed for it. */
  constructor(name = "test authority", signed?: Pair) {
    this.certFile = signed?.certFile ?? join(this.directory, "ca.crt");
    this.#keyFile = signed?.keyFile ?? join(this.directory, "ca.key");
    if (signed !== undefined) return;
    openssl([
      ..."req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split(" "),
      ...["-subj", `/CN=${name}`, "-keyout", this.#keyFile, "-out", this.certFile],
    ]);
  }

  get cert(): Buffer {
    return readFileSync(this.certFile);
  }

  /** A certificate for the DNS names, and for 127.0.0.1, valid for a day. */
  issue(...names: readonly string[]): Pair {
    return this.issueFor(1, ...names);
  }

  /** The same for `days` from now. */
  issueFor(days: number, ...names: readonly string[]): Pair {
    return this.#sign(
      names,
      days,
      `subjectAltName=${[...names.map((name) => `DNS:${name}`), "IP:127.0.0.1"].join(",")}`,
    );
  }

  /** The certificate of an authority in between, and one for the DNS name that it vouches for. */
  issueThrough(between: string, name: string): { readonly own: Pair; readonly between: Buffer } {
    const middle = this.#sign([between], 2, "basicConstraints=critical,CA:TRUE");
    const below = new Authority(between, middle);
    return { own: below.issueFor(2, name), between: middle.cert };
  }

  #sign(names: readonly string[], days: number, extension: string): Pair {
    const stem = join(this.directory, `pair-${this.#serial}`);
    const [keyFile, requestFile, certFile, extFile] = [`${stem}.key`, `${stem}.csr`, `${stem}.crt`, `${stem}.ext`];
    openssl([
      ..."req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes".split(" "),
      ...["-subj", `/CN=${names[0] ?? "nobody"}`, "-keyout", keyFile, "-out", requestFile],
    ]);
    writeFileSync(extFile, `${extension}\n`);
    openssl([
      ...["x509", "-req", "-in", requestFile, "-CA", this.certFile, "-CAkey", this.#keyFile, "-days", String(days)],
      ...["-set_serial", String(this.#serial++), "-extfile", extFile, "-out", certFile],
    ]);
    return { certFile, keyFile, cert: readFileSync(certFile), key: readFileSync(keyFile) };
  }
}

function openssl(args: readonly string[]): void {
  execFileSync("openssl", args, { stdio: ["ignore", "ignore", "pipe"] });
}
