// Certificates of the gRPC port: read from files, checked, and read again when the files change. A pair that can't be
// used never replaces one that can.

import { createHash, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { ConfigError } from "../core/errors.ts";

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

export interface TlsFilesObserver {
  /** New files are in force; `validTo` is the end of the certificate's time. */
  renewed(validTo: string): void;
  /** Changed files can't be used, the old ones stay in force; one sentence. */
  refused(why: string): void;
}

/** The certificates in force, kept up to date until closed. */
export class TlsFiles {
  readonly names: TlsFileNames;
  readonly #observer: TlsFilesObserver;
  readonly #listeners = new Set<(material: TlsMaterial) => void>();
  readonly #timer: NodeJS.Timeout;
  #material: TlsMaterial;
  /** Of the last files that were tried, good or bad. */
  #seenHash: string;
  /** The trouble that was reported last; the same is not reported again until files were good. */
  #saidWhy: string | undefined;

  /** Reads the files for the first time. Throws ConfigError that names file and reason if they can't be used. */
  constructor(names: TlsFileNames, observer: TlsFilesObserver, pollMs = POLL_MS) {
    this.names = names;
    this.#observer = observer;
    try {
      this.#material = readMaterial(names);
    } catch (cause) {
      throw new ConfigError("CONFIG_SETTINGS", `the gRPC port's certificates can't be used: ${reasonOf(cause)}`);
    }
    this.#seenHash = hashOf(this.#material);
    this.#timer = setInterval(() => this.refresh(), pollMs);
    this.#timer.unref();
  }

  get material(): TlsMaterial {
    return this.#material;
  }

  /** Calls `listener`, which must not throw, with what is in force now and whenever that changes. Returns how to stop. */
  subscribe(listener: (material: TlsMaterial) => void): () => void {
    this.#listeners.add(listener);
    listener(this.#material);
    return () => this.#listeners.delete(listener);
  }

  /** Looks at the files now. Never throws. */
  refresh(): void {
    try {
      const material = readMaterial(this.names, (found) => this.#isNews(found));
      if (material === undefined) return;
      this.#material = material;
      this.#saidWhy = undefined;
      for (const listener of this.#listeners) listener(material);
      this.#observer.renewed(new X509Certificate(material.cert).validTo);
    } catch (cause) {
      const why = reasonOf(cause);
      if (why !== this.#saidWhy) this.#observer.refused(why);
      this.#saidWhy = why;
    }
  }

  close(): void {
    clearInterval(this.#timer);
    this.#listeners.clear();
  }

  #isNews(material: TlsMaterial): boolean {
    const hash = hashOf(material);
    if (hash === this.#seenHash || hash === hashOf(this.#material)) return false;
    this.#seenHash = hash;
    return true;
  }
}

function readMaterial(names: TlsFileNames): TlsMaterial;
function readMaterial(names: TlsFileNames, isNews: (found: TlsMaterial) => boolean): TlsMaterial | undefined;
function readMaterial(names: TlsFileNames, isNews?: (found: TlsMaterial) => boolean): TlsMaterial | undefined {
  const material = {
    cert: readFileSync(names.certFile),
    key: readFileSync(names.keyFile),
    clientCa: names.clientCaFile === undefined ? undefined : readFileSync(names.clientCaFile),
  };
  if (isNews !== undefined && !isNews(material)) return undefined;
  // Throws unless the key belongs to the certificate and all are well formed.
  createSecureContext({ cert: material.cert, key: material.key });
  new X509Certificate(material.cert);
  if (material.clientCa !== undefined) new X509Certificate(material.clientCa);
  return material;
}

function hashOf({ cert, key, clientCa }: TlsMaterial): string {
  const hash = createHash("sha256");
  for (const part of [cert, key, clientCa ?? Buffer.alloc(0)]) hash.update(`${part.length}:`).update(part);
  return hash.digest("hex");
}

// Errors of OpenSSL name no file but never hold what is in it either.
function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

/** True if the certificate carries the DNS name (exactly, or by a wildcard for its first label). */
export function carriesName(certificate: X509Certificate, name: string): boolean {
  return certificate.checkHost(name, { subject: "never", wildcards: true }) !== undefined;
}
