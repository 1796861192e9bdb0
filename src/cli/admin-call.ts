// Asks the guarded pages of a running server's HTTP port, with the token that the environment names.

import { readFileSync } from "node:fs";
import type { WrittenEntry } from "../core/request.ts";
import { visible } from "../core/visible.ts";
import type { Terminal } from "./terminal.ts";

const SERVER_TIMEOUT_MS = 5_000;
const SHOWN_CHARS_MAX = 500;

/** Where to ask. */
interface AdminTarget {
  /** `http://host:port` or `host:port`. */
  readonly server: string;
  /** A file whose first token is sent; otherwise ADMIN_TOKEN or ADMIN_TOKEN_FILE of the environment, if set. */
  readonly tokenFile?: string | undefined;
}

/** Sends `question` as JSON; GET without one. Returns the answer's JSON; undefined if there is none, after the terminal was told why. */
export async function askAdmin(
  path: string,
  question: object | undefined,
  { server, tokenFile }: AdminTarget,
  terminal: Terminal,
): Promise<unknown> {
  const url = `${/^https?:\/\//.test(server) ? "" : "http://"}${server.replace(/\/+$/, "")}${path}`;
  try {
    const token = findToken(tokenFile, terminal.env);
    const response = await fetch(url, {
      method: question === undefined ? "GET" : "POST",
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      ...(question === undefined ? {} : { body: JSON.stringify(question) }),
      signal: AbortSignal.timeout(SERVER_TIMEOUT_MS),
      redirect: "error",
    });
    const body = await response.text();
    if (response.ok) {
      const answer = parse(body);
      if (answer !== undefined) return answer;
    }
    // The text of a refusal begins with its status, which the message already has.
    const text = body.trim().replace(new RegExp(`^${response.status} `), "");
    terminal.err(`${visible(url)} answered ${response.status}: ${visible(text.slice(0, SHOWN_CHARS_MAX))}\n`);
  } catch (cause) {
    const why =
      cause instanceof Error ? (cause.cause instanceof Error ? cause.cause.message : cause.message) : String(cause);
    terminal.err(`can't ask ${visible(url)}: ${visible(why)}\n`);
  }
  return undefined;
}

/** A descriptor in the JSON of these pages. */
export function askedDescriptor(entries: readonly WrittenEntry[]): object {
  return {
    entries: entries.map(({ key, value, valueBase64 }) =>
      valueBase64 === undefined ? { key, value } : { key, value_base64: valueBase64 },
    ),
  };
}

function findToken(tokenFile: string | undefined, env: Terminal["env"]): string | undefined {
  const { ADMIN_TOKEN: token = "", ADMIN_TOKEN_FILE: fileOfServer = "" } = env;
  if (tokenFile === undefined && token !== "") return token;
  const file = tokenFile ?? (fileOfServer === "" ? undefined : fileOfServer);
  if (file === undefined) return undefined;
  const line = readFileSync(file, "utf8")
    .split(/\r?\n/)
    .map((text) => text.trim())
    .find((text) => text !== "" && !text.startsWith("#"));
  return line?.split(/\s+/).at(-1);
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch (cause) {
    if (cause instanceof SyntaxError) return undefined;
    throw cause;
  }
}
