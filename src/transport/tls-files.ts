// Certificates of the gRPC port: read from files, checked, and read again when the files change. A pair that can't be
// used, or that clients would turn down, never replaces one that serves.

import { createHash, type X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { type Clock, WallClock } from "../core/clock.ts";
import { ConfigError } from "../core/errors.ts";
import { errorMessage } from "../core/thrown.ts";
import { expiryOf, faultOf, nameOf, type Placed, readCertificates, requireKeyOf } from "./certificate-check.ts";

/** How often the files are read to see whether they changed; renewed certificates are in force this soon. */
const POLL_MS = 5_000;

export interface TlsFileNames {
  /** Chain of the server's certificate, PEM. */
  readonly certFile: string;
  /** Its private key, PEM. */
  readonly keyFile: string;
  /** Authorities that client certificates must come from, PEM; undefined asks clients for none. */
  readonly clientCaFile: string | undefined;
  /** A DNS name that client certificates must carry; undefined takes any that the authorities vouch for. */
  readonly clientName: string | undefined;
}

/** What is in force. */
export interface TlsMaterial {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly clientCa: Buffer | undefined;
}

interface TlsFilesObserver {
  /** New files are in force; `validTo` is the end of the certificate's time. */
  renewed(validTo: string): void;
  /** Changed files are not used, the old ones stay in force; one sentence. */
  refused(why: string): void;
  /** What `status` says may have changed. */
  looked?(): void;
}

/** How the certificates stand. */
interface TlsStatus {
  /** Changes of the files that came in force, and those that did not. */
  readonly renewals: number;
  readonly refusals: number;
  /** The name in the certificate in force. */
  readonly subject: string;
  /** Since when the certificate in force is valid, and when the first of its chain expires, in microseconds since the epoch. */
  readonly validFromUs: number;
  readonly validToUs: number;
  /** Why the files as they are now are not in force; undefined if they are. One sentence, as is `fault`. */
  readonly refusal: string | undefined;
  /** Why clients may turn down what is in force all the same; undefined if nothing is known against it. */
  readonly fault: string | undefined;
}

/** Files that could serve. */
interface Candidate {
  readonly hash: string;
  readonly material: TlsMaterial;
  readonly chain: readonly Placed[];
  readonly authorities: readonly Placed[];
}

interface TlsFilesOptions {
  /** Tells what certificates' times are compared with: the host's own clock, unless a test says otherwise. */
  readonly clock?: Clock;
  readonly pollMs?: number;
}

/** The certificates in force, kept up to date until closed. */
export class TlsFiles {
  readonly names: TlsFileNames;
  readonly #observer: TlsFilesObserver;
  readonly #clock: Clock;
  readonly #listeners = new Set<(material: TlsMaterial) => void>();
  readonly #timer: NodeJS.Timeout;
  #inForce: Candidate;
  /** What was made of the files last, so that they are taken apart once per change. */
  #tried: { readonly hash: string; readonly found: Candidate | Error } | undefined;
  #renewals = 0;
  #refusals = 0;
  #refusal: string | undefined;

  /**
   * Reads the files for the first time. Throws ConfigError that names file and reason if they can't serve at all. A
   * certificate whose time is over, or still to come, does serve: a client that does not look at it is better off.
   */
  constructor(names: TlsFileNames, observer: TlsFilesObserver, { clock, pollMs }: TlsFilesOptions = {}) {
    this.names = names;
    this.#observer = observer;
    this.#clock = clock ?? new WallClock();
    try {
      this.#inForce = this.#read();
    } catch (cause) {
      throw new ConfigError("CONFIG_SETTINGS", `the gRPC port's certificates can't be used: ${errorMessage(cause)}`);
    }
    this.#timer = setInterval(() => this.refresh(), pollMs ?? POLL_MS);
    this.#timer.unref();
  }

  get material(): TlsMaterial {
    return this.#inForce.material;
  }

  /** How they stand at this moment. */
  status(): TlsStatus {
    const { chain, authorities } = this.#inForce;
    const [own] = chain;
    return {
      renewals: this.#renewals,
      refusals: this.#refusals,
      subject: own === undefined ? "" : nameOf(own),
      validFromUs: own?.validFromUs ?? 0,
      validToUs: expiryOf(chain),
      refusal: this.#refusal,
      fault: faultOf(chain, authorities, this.#clock.nowUs()),
    };
  }

  /** Calls `listener`, which must not throw, with what is in force now and whenever that changes. Returns how to stop. */
  subscribe(listener: (material: TlsMaterial) => void): () => void {
    this.#listeners.add(listener);
    listener(this.material);
    return () => this.#listeners.delete(listener);
  }

  /** Looks at the files now, and again at what they were refused for, which time may have mended. Never throws. */
  refresh(): void {
    try {
      const found = this.#read();
      const hasChanged = found.hash !== this.#inForce.hash;
      const fault = hasChanged ? this.#faultBeside(found) : undefined;
      if (fault !== undefined) this.#refuse(fault);
      else {
        this.#refusal = undefined;
        if (hasChanged) this.#putInForce(found);
      }
    } catch (cause) {
      this.#refuse(errorMessage(cause));
    }
    this.#observer.looked?.();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#listeners.clear();
  }

  // Beside something that has faults itself, the newest files are the better guess.
  #faultBeside(found: Candidate): string | undefined {
    const nowUs = this.#clock.nowUs();
    const { chain, authorities } = this.#inForce;
    if (faultOf(chain, authorities, nowUs) !== undefined) return undefined;
    return faultOf(found.chain, found.authorities, nowUs, chain);
  }

  #putInForce(found: Candidate): void {
    this.#inForce = found;
    this.#renewals++;
    for (const listener of this.#listeners) listener(found.material);
    this.#observer.renewed(found.chain[0]?.certificate.validTo ?? "");
  }

  // The same trouble is not reported again until files were good.
  #refuse(why: string): void {
    if (why === this.#refusal) return;
    this.#refusal = why;
    this.#refusals++;
    this.#observer.refused(why);
  }

  #read(): Candidate {
    const { certFile, keyFile, clientCaFile } = this.names;
    const material = {
      cert: readFileSync(certFile),
      key: readFileSync(keyFile),
      clientCa: clientCaFile === undefined ? undefined : readFileSync(clientCaFile),
    };
    const hash = hashOf(material);
    if (this.#tried?.hash !== hash) this.#tried = { hash, found: tryOut(material, this.names, hash) };
    const { found } = this.#tried;
    if (found instanceof Error) throw found;
    return found;
  }
}

function tryOut(
  material: TlsMaterial,
  { certFile, keyFile, clientCaFile }: TlsFileNames,
  hash: string,
): Candidate | Error {
  const { cert, key, clientCa } = material;
  try {
    const chain = readCertificates(cert, certFile);
    const authorities = clientCa === undefined ? [] : readCertificates(clientCa, clientCaFile ?? "");
    if (chain[0] !== undefined) requireKeyOf(chain[0], key, keyFile);
    // What the checks above let pass and the TLS library does not take.
    createSecureContext({ cert, key, ...(clientCa === undefined ? {} : { ca: clientCa }) });
    return { hash, material, chain, authorities };
  } catch (cause) {
    return cause instanceof Error ? cause : new Error(String(cause));
  }
}

function hashOf({ cert, key, clientCa }: TlsMaterial): string {
  const hash = createHash("sha256");
  for (const part of [cert, key, clientCa ?? Buffer.alloc(0)]) hash.update(`${part.length}:`).update(part);
  return hash.digest("hex");
}

/** True if the certificate carries the DNS name (exactly, or by a wildcard for its first label). */
export function carriesName(certificate: X509Certificate, name: string): boolean {
  return certificate.checkHost(name, { subject: "never", wildcards: true }) !== undefined;
}
