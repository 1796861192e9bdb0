// The tokens that admin pages ask for: one from the environment, or a file of them, which is read again when it
// changes. access.ts decides what a token opens.

import { createHash, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Clock } from "../../base/clock.ts";
import { ConfigError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { errorCode, errorMessage } from "../../base/thrown.ts";
import { MICROS_PER_SECOND } from "../../base/units.ts";
import type { Settings } from "../../settings/settings.ts";
import { ADMIN_TOKEN } from "../../settings/value-types.ts";

const TOKENS_MAX = 64;
/** The file is read no more often than this. */
const LOOK_EVERY_US = MICROS_PER_SECOND;
const NAME = /^[A-Za-z0-9._-]{1,64}$/;

/** ADMIN_TOKEN, and ADMIN_TOKEN_FILE: a token per line, optionally with a name before it. */
type TokenSettings = Pick<Settings, "adminToken" | "adminTokenFile">;

interface Token {
  readonly name: string;
  /** SHA-256 of the token. Digests have one length, so comparing them reveals nothing about the token's length. */
  readonly digest: Buffer;
}

/** The tokens in force. */
export class Tokens {
  readonly #file: string | undefined;
  readonly #clock: Clock;
  readonly #log: Pick<Log, "info" | "warn" | "error">;
  readonly #onTrouble: (trouble: string | undefined) => void;
  #tokens: readonly Token[];
  /** What was found in place of the file at the last look: its text, or why it could not be read. */
  #found = "";
  #lookedUs: number;
  /** False if no token is configured: then access depends on the caller's address. */
  readonly isAsked: boolean;

  /**
   * Reads the file, if one is set. Throws ConfigError if it can't be used. Calls `onTrouble` with what is wrong with a
   * changed file, and with undefined once nothing is.
   */
  constructor(
    { adminToken: token, adminTokenFile: file }: TokenSettings,
    clock: Clock,
    log: Pick<Log, "info" | "warn" | "error">,
    onTrouble: (trouble: string | undefined) => void = () => undefined,
  ) {
    this.#file = file;
    this.#clock = clock;
    this.#log = log;
    this.#onTrouble = onTrouble;
    this.#lookedUs = clock.nowUs();
    this.#tokens = token === undefined ? [] : [{ name: "ADMIN_TOKEN", digest: digestOf(token) }];
    this.isAsked = token !== undefined || file !== undefined;
    if (file === undefined) return;
    try {
      this.#found = readFileSync(file, "utf8");
      this.#tokens = readTokens(this.#found, file);
      if (this.#tokens.length === 0) throw new Error(`expected a token in ${file}, found none`);
    } catch (cause) {
      throw new ConfigError("CONFIG_SETTINGS", `ADMIN_TOKEN_FILE: ${errorMessage(cause)}`);
    }
  }

  /** The name of the token, or undefined if it is not in force. The time taken depends on the text's length alone. */
  nameOf(text: string): string | undefined {
    this.look();
    const digest = digestOf(text);
    let name: string | undefined;
    for (const token of this.#tokens) if (timingSafeEqual(token.digest, digest)) name = token.name;
    return name;
  }

  /** Reads the file again if it is time to. */
  look(): void {
    const file = this.#file;
    const nowUs = this.#clock.nowUs();
    if (file === undefined || nowUs - this.#lookedUs < LOOK_EVERY_US) return;
    this.#lookedUs = nowUs;
    const before = this.#found;
    try {
      this.#found = readText(file);
      if (this.#found === before) return;
      this.#tokens = readTokens(this.#found, file);
    } catch (cause) {
      // Text that can't be read is more likely a mistake than meant to revoke.
      const why = errorMessage(cause);
      if (this.#found === before) this.#found = why;
      if (this.#found === before) return;
      this.#log.error({ file, why }, "changed admin tokens are invalid; the old ones stay in force");
      this.#onTrouble(`changed admin tokens are invalid, the old ones stay in force: ${why}`);
      return;
    }
    const names = this.#tokens.map(({ name }) => name);
    if (names.length > 0) this.#log.info({ file, names }, "changed admin tokens are in force");
    else this.#log.warn({ file }, "all admin tokens are revoked: nobody may use admin pages");
    this.#onTrouble(names.length > 0 ? undefined : `no admin token is in force: ${file} has none`);
  }
}

/** The file's text; empty if there is no file: emptying or deleting it revokes all tokens. */
function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    if (errorCode(cause) === "ENOENT") return "";
    throw cause;
  }
}

/** The tokens in the text of a file. Messages name lines, never their text. */
function readTokens(read: string, file: string): readonly Token[] {
  const tokens: Token[] = [];
  for (const [index, line] of read.split(/\r?\n/).entries()) {
    const words = line.trim().split(/\s+/);
    if (words[0] === "" || words[0]?.startsWith("#")) continue;
    const text = words.at(-1) ?? "";
    const name = words.length === 1 ? `line ${index + 1}` : (words[0] ?? "");
    const at = `line ${index + 1} of ${file}`;
    if (words.length > 2 || (words.length === 2 && !NAME.test(name)))
      throw new Error(`expected \`token\` or \`name token\` in ${at}`);
    if (ADMIN_TOKEN.parse(text) === undefined) throw new Error(`expected ${ADMIN_TOKEN.expects} as the token in ${at}`);
    if (tokens.length === TOKENS_MAX) throw new Error(`expected at most ${TOKENS_MAX} tokens in ${file}`);
    tokens.push({ name, digest: digestOf(text) });
  }
  return tokens;
}

function digestOf(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
