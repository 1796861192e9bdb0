// The certificates of the gRPC port: read from files, checked, and read again when the files change. A pair that can't
// be used, or that clients would reject, never replaces one that serves.

import { createHash, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext, type TlsOptions } from "node:tls";
import { type Clock, WallClock } from "../../base/clock.ts";
import { ConfigError } from "../../base/errors.ts";
import { errorMessage } from "../../base/thrown.ts";
import { expiryOf, faultOf, nameOf, type Placed, readCertificates, requireKeyOf } from "./certificate-check.ts";

/** How often the files are read; changed certificates are in force this soon. */
const POLL_MS = 5_000;

export interface TlsFileNames {
  /** PEM file with the chain of the server's certificate. */
  readonly certFile: string;
  /** PEM file with its private key. */
  readonly keyFile: string;
  /** PEM file with the authorities of client certificates; undefined asks clients for none. */
  readonly clientCaFile: string | undefined;
  /** DNS name that client certificates must carry; undefined accepts every certificate of the authorities. */
  readonly clientName: string | undefined;
}

interface TlsFilesObserver {
  /** New files are in force; `validTo` is the end of the certificate's validity. */
  renewed(validTo: string): void;
  /** Changed files are not used and the old ones stay in force, for the reason in `why`, one sentence. */
  refused(why: string): void;
  /** Called after each read of the files: `status` may have changed. */
  looked?(): void;
}

/** Files that were read, and that TLS accepts. */
interface Candidate {
  readonly hash: string;
  readonly options: TlsOptions;
  readonly chain: readonly Placed[];
  readonly authorities: readonly Placed[];
}

interface TlsFilesOptions {
  /** The clock for the certificates' validity: the host's own, unless a test gives one. */
  readonly clock?: Clock;
  readonly pollMs?: number;
}

/** The certificates in force, kept up to date until closed. */
export class TlsFiles {
  readonly names: TlsFileNames;
  readonly #observer: TlsFilesObserver;
  readonly #clock: Clock;
  readonly #listeners = new Set<(options: TlsOptions) => void>();
  readonly #timer: NodeJS.Timeout;
  #inForce: Candidate;
  #renewals = 0;
  #refusals = 0;
  #refusal: string | undefined;

  /**
   * Reads the files for the first time. Throws ConfigError, which names file and reason, if they can't serve at all. A
   * certificate that is not valid now does serve: clients that don't check the time can still connect.
   */
  constructor(names: TlsFileNames, observer: TlsFilesObserver, { clock, pollMs }: TlsFilesOptions = {}) {
    this.names = names;
    this.#observer = observer;
    this.#clock = clock ?? new WallClock();
    try {
      this.#inForce = readFiles(names);
    } catch (cause) {
      throw new ConfigError("CONFIG_SETTINGS", `the gRPC port's certificates can't be used: ${errorMessage(cause)}`);
    }
    this.#timer = setInterval(() => this.refresh(), pollMs ?? POLL_MS).unref();
  }

  /**
   * What is in force; the same object until it changes. Clients must show a certificate if there are authorities for
   * them.
   */
  get options(): TlsOptions {
    return this.#inForce.options;
  }

  /** The present state. Times are in microseconds since the epoch. */
  status() {
    const { chain, authorities } = this.#inForce;
    const [own] = chain;
    return {
      /** How many changes of the files came in force, and how many were refused. */
      renewals: this.#renewals,
      refusals: this.#refusals,
      /** The subject of the certificate in force. */
      subject: own === undefined ? "" : nameOf(own),
      /** When the certificate's validity began, and when the first of its chain expires. */
      validFromUs: own?.validFromUs ?? 0,
      validToUs: expiryOf(chain),
      /** Why the files as they are now are not in force, in one sentence; undefined if they are. */
      refusal: this.#refusal,
      /** Why clients may reject the certificates in force, in one sentence; undefined if no fault is known. */
      fault: faultOf(chain, authorities, this.#clock.nowUs()),
    };
  }

  /** Calls `listener`, which must not throw, with what is in force now and after each change. */
  subscribe(listener: (options: TlsOptions) => void): void {
    this.#listeners.add(listener);
    listener(this.options);
  }

  /**
   * Reads the files now. Unchanged files that were refused are judged again, because their validity may have begun.
   * Never throws.
   */
  refresh(): void {
    try {
      const found = readFiles(this.names, this.#inForce);
      const hasChanged = found !== this.#inForce;
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

  // If the certificates in force have a fault themselves, the newer files are the better choice.
  #faultBeside(found: Candidate): string | undefined {
    const nowUs = this.#clock.nowUs();
    const { chain, authorities } = this.#inForce;
    if (faultOf(chain, authorities, nowUs) !== undefined) return undefined;
    return faultOf(found.chain, found.authorities, nowUs, chain);
  }

  #putInForce(found: Candidate): void {
    this.#inForce = found;
    this.#renewals++;
    for (const listener of this.#listeners) listener(found.options);
    this.#observer.renewed(found.chain[0]?.certificate.validTo ?? "");
  }

  // The same reason is not reported again until files were accepted.
  #refuse(why: string): void {
    if (why === this.#refusal) return;
    this.#refusal = why;
    this.#refusals++;
    this.#observer.refused(why);
  }
}

/** Reads and checks the files, unless they are those in force. Throws if they can't serve. */
function readFiles({ certFile, keyFile, clientCaFile }: TlsFileNames, inForce?: Candidate): Candidate {
  const [cert, key] = [readFileSync(certFile), readFileSync(keyFile)];
  const ca = clientCaFile === undefined ? undefined : readFileSync(clientCaFile);
  const asksClients = ca !== undefined;
  const hash = hashOf(asksClients ? [cert, key, ca] : [cert, key]);
  if (hash === inForce?.hash) return inForce;
  const chain = readCertificates(cert, certFile);
  const authorities = asksClients ? readCertificates(ca, clientCaFile ?? "") : [];
  if (chain[0] !== undefined) requireKeyOf(chain[0], key, keyFile);
  // With `ca` set, Node trusts these authorities alone.
  const context = { cert, key, ...(asksClients && { ca }), minVersion: "TLSv1.2" as const };
  // Throws on what the checks above accept and OpenSSL does not.
  createSecureContext(context);
  const options = { ...context, requestCert: asksClients, rejectUnauthorized: asksClients };
  return { hash, options, chain, authorities };
}

function hashOf(files: readonly Buffer[]): string {
  const hash = createHash("sha256");
  for (const file of files) hash.update(`${file.length}:`).update(file);
  return hash.digest("hex");
}

/**
 * Why a client with this certificate (DER) gets no answer, in one sentence; undefined if the certificate carries the
 * DNS name, exactly or by a wildcard for its first label.
 */
export function whyNotNamed(raw: Buffer | undefined, name: string): string | undefined {
  const found = raw && new X509Certificate(raw).checkHost(name, { subject: "never", wildcards: true });
  return found === undefined
    ? `the client certificate does not contain the name ${name} (GRPC_CLIENT_TLS_SAN)`
    : undefined;
}
