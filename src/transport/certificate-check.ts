// What is known against certificates before anybody is shown them: cut or damaged files, a key of something else, times that
// are over or still to come, a chain without its next link. Pure; what follows from it is tls-files.ts's to decide.

import { createPrivateKey, X509Certificate } from "node:crypto";
import { errorMessage } from "../core/thrown.ts";
import { isoTime } from "../core/units.ts";

/** A certificate of a file, with its place in it. */
export interface Placed {
  readonly file: string;
  /** From 1. */
  readonly place: number;
  readonly certificate: X509Certificate;
  readonly validFromUs: number;
  readonly validToUs: number;
}

const BEGIN = /-----BEGIN (?:X509 )?CERTIFICATE-----/g;
const END = /-----END (?:X509 )?CERTIFICATE-----/g;
/** Names of certificates are as long as who made them liked. */
const NAME_CHARS_MAX = 100;

/**
 * Every certificate of a file in PEM, the server's own first. Throws an Error with one sentence that names the file if there
 * is none, or if one is cut off or damaged: the TLS library reads up to there and leaves the rest out without a word.
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
      `expected certificates as PEM in ${file}, got something else as number ${place}: ${errorMessage(cause)}`,
    );
  }
  const validFromUs = Date.parse(certificate.validFrom) * 1_000;
  const validToUs = Date.parse(certificate.validTo) * 1_000;
  return { file, place, certificate, validFromUs, validToUs };
}

/** Throws an Error with one sentence unless `key` is the private key of `own`. */
export function requireKeyOf(own: Placed, key: Buffer, keyFile: string): void {
  let belongs: boolean;
  try {
    belongs = own.certificate.checkPrivateKey(createPrivateKey(key));
  } catch (cause) {
    throw new Error(`expected a private key as PEM in ${keyFile}, got something else: ${errorMessage(cause)}`);
  }
  if (belongs) return;
  const whose = `the certificate in ${own.file} (${nameOf(own)})`;
  throw new Error(`expected the private key of ${whose} in ${keyFile}, got the key of another`);
}

/**
 * Why clients will turn down what the server shows, or the server its clients: a time that is not now, or a link that is
 * missing. `before` is the chain that was shown so far. Undefined if nothing is known against it.
 */
export function faultOf(
  chain: readonly Placed[],
  authorities: readonly Placed[],
  nowUs: number,
  before: readonly Placed[] = [],
): string | undefined {
  return (
    firstWrongTime(chain.filter(isShown), nowUs) ??
    missingLinkOf(chain, before) ??
    (authorities.length > 0 && authorities.every((each) => wrongTimeOf(each, nowUs) !== undefined)
      ? `no authority of ${authorities[0]?.file} is valid now, so no client certificate can be`
      : undefined)
  );
}

/** When the first of the chain expires, in microseconds since the epoch. Roots don't count: clients have their own. */
export function expiryOf(chain: readonly Placed[]): number {
  return Math.min(...chain.filter(isShown).map(({ validToUs }) => validToUs));
}

/** The name in a certificate, on one line. */
export function nameOf({ certificate }: Placed): string {
  return onOneLine(certificate.subject);
}

function firstWrongTime(chain: readonly Placed[], nowUs: number): string | undefined {
  for (const each of chain) {
    const wrong = wrongTimeOf(each, nowUs);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
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

// A file with the server's own certificate alone may be whole: whether its issuer is a root, only clients know. So a link is
// missed where the file has others that don't lead on, or had it before.
function missingLinkOf(chain: readonly Placed[], before: readonly Placed[]): string | undefined {
  const [own] = chain;
  if (own === undefined || isRoot(own)) return undefined;
  const others = chain.filter(({ certificate }) => certificate.fingerprint256 !== own.certificate.fingerprint256);
  const issuer = onOneLine(own.certificate.issuer);
  if (others.some((each) => own.certificate.checkIssued(each.certificate))) return undefined;
  if (others.length > 0)
    return `the chain in ${own.file} is cut: none of its other certificates is that of the issuer (${issuer})`;
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
