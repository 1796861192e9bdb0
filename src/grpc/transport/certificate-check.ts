// Finds faults of certificates before a client sees them: cut or damaged files, a foreign private key, validity that
// has ended or not begun, a chain without its next link. Pure; tls-files.ts decides what follows.

import { createPrivateKey, X509Certificate } from "node:crypto";
import { errorMessage } from "../../base/thrown.ts";
import { isoTime } from "../../base/units.ts";

/** A certificate with its place in a file. */
export interface Placed {
  readonly file: string;
  /** Number of the certificate in its file, from 1. */
  readonly place: number;
  readonly certificate: X509Certificate;
  readonly validFromUs: number;
  readonly validToUs: number;
}

const BEGIN = /-----BEGIN (?:X509 )?CERTIFICATE-----/g;
const END = /-----END (?:X509 )?CERTIFICATE-----/g;
/** Longest name in a message: certificates have names of any length. */
const NAME_CHARS_MAX = 100;

/**
 * Reads every certificate of a PEM file, the server's own first. Throws an Error with one sentence that names the file
 * if there isn't one, or if one is cut off or damaged: OpenSSL would read those before it and silently leave out the
 * rest.
 */
export function readCertificates(pem: Buffer, file: string): readonly Placed[] {
  const text = pem.toString("latin1");
  const starts = [...text.matchAll(BEGIN)].map(({ index }) => index);
  if (starts.length === 0) throw new Error(`expected certificates as PEM in ${file}, got none`);
  return starts.map((start, i) => {
    END.lastIndex = start;
    const end = END.exec(text);
    if (end === null || end.index > (starts[i + 1] ?? text.length))
      throw new Error(`expected whole certificates in ${file}, got one that is cut off (number ${i + 1})`);
    return placed(text.slice(start, end.index + end[0].length), file, i + 1);
  });
}

function placed(block: string, file: string, place: number): Placed {
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(block);
  } catch (cause) {
    throw new Error(
      `expected certificates as PEM in ${file}, got something else at number ${place}: ${errorMessage(cause)}`,
    );
  }
  const validFromUs = Date.parse(certificate.validFrom) * 1_000;
  const validToUs = Date.parse(certificate.validTo) * 1_000;
  return { file, place, certificate, validFromUs, validToUs };
}

/** Throws an Error with one sentence if `key` is not the private key of `own`. */
export function requireKeyOf(own: Placed, key: Buffer, keyFile: string): void {
  let belongs: boolean;
  try {
    belongs = own.certificate.checkPrivateKey(createPrivateKey(key));
  } catch (cause) {
    throw new Error(`expected a private key as PEM in ${keyFile}, got something else: ${errorMessage(cause)}`);
  }
  if (belongs) return;
  const whose = `the certificate in ${own.file} (${nameOf(own)})`;
  throw new Error(`expected the private key of ${whose} in ${keyFile}, got a different key`);
}

/**
 * Why clients will reject the server's chain, or the server its clients: a certificate that is not valid now, or a
 * missing link. `before` is the chain that was served so far. Undefined if there is no such fault.
 */
export function faultOf(
  chain: readonly Placed[],
  authorities: readonly Placed[],
  nowUs: number,
  before: readonly Placed[] = [],
): string | undefined {
  return (
    chain
      .filter(isShown)
      .map((each) => wrongTimeOf(each, nowUs))
      .find((wrong) => wrong !== undefined) ??
    missingLinkOf(chain, before) ??
    (authorities.length > 0 && authorities.every((each) => wrongTimeOf(each, nowUs) !== undefined)
      ? `no authority of ${authorities[0]?.file} is valid now, so no client certificate can be`
      : undefined)
  );
}

/**
 * When the first certificate of the chain expires, in microseconds since the epoch. Roots don't count: clients have
 * their own.
 */
export function expiryOf(chain: readonly Placed[]): number {
  return Math.min(...chain.filter(isShown).map(({ validToUs }) => validToUs));
}

/** The subject of a certificate, on one line. */
export function nameOf({ certificate }: Placed): string {
  return onOneLine(certificate.subject);
}

function isShown(each: Placed): boolean {
  return each.place === 1 || !isRoot(each);
}

function wrongTimeOf(each: Placed, nowUs: number): string | undefined {
  const { file, place, validFromUs, validToUs } = each;
  const which = place === 1 ? `the certificate in ${file}` : `certificate ${place} in ${file}`;
  if (nowUs > validToUs) return `${which} (${nameOf(each)}) expired at ${isoTime(validToUs)}`;
  if (nowUs < validFromUs) return `${which} (${nameOf(each)}) is not valid before ${isoTime(validFromUs)}`;
  return undefined;
}

// A file with the server's certificate alone may be complete, because only clients know whether its issuer is a root.
// So a link counts as missing only if the file has other certificates that are not the issuer's, or had the issuer's
// certificate before.
function missingLinkOf(chain: readonly Placed[], before: readonly Placed[]): string | undefined {
  const [own] = chain;
  if (own === undefined || isRoot(own)) return undefined;
  const others = chain.filter(({ certificate }) => certificate.fingerprint256 !== own.certificate.fingerprint256);
  const issuer = onOneLine(own.certificate.issuer);
  if (others.some((each) => own.certificate.checkIssued(each.certificate))) return undefined;
  if (others.length > 0) return `the chain in ${own.file} is cut: it lacks the certificate of the issuer (${issuer})`;
  if (before.slice(1).some((each) => own.certificate.checkIssued(each.certificate)))
    return `the chain in ${own.file} is cut: the certificate of the issuer (${issuer}) is no longer there`;
  return undefined;
}

function isRoot({ certificate }: Placed): boolean {
  return certificate.subject === certificate.issuer;
}

function onOneLine(name: string): string {
  return name.replaceAll("\n", ", ").slice(0, NAME_CHARS_MAX);
}
