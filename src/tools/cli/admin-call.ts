// Asks the guarded pages of a running server's HTTP port, with the token that the environment names.

import { once } from "node:events";
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { text } from "node:stream/consumers";
import { isRecord } from "../../base/is-record.ts";
import { errorMessage, fileTrouble, unlessThrown } from "../../base/thrown.ts";
import { visible } from "../../base/visible.ts";
import type { WrittenEntry } from "../../engine/domain/request.ts";
import { sayTrouble, type Terminal } from "./terminal.ts";

const SERVER_TIMEOUT_MS = 5_000;
const SHOWN_CHARS_MAX = 500;

/** Where to ask. */
export interface AdminTarget {
  /** `http://host:port`, perhaps with a path. */
  readonly server: string;
  /** A file whose first token is sent; otherwise ADMIN_TOKEN or ADMIN_TOKEN_FILE of the environment, if set. */
  readonly tokenFile?: string | undefined;
}

/**
 * Returns the answer's JSON. Without one: undefined, exit code 2, and the reason on standard error. `list`: a member
 * that is a list or a map; other programs' answers lack it. Sends `question` as JSON by `method`; GET without a
 * question.
 */
export async function askAdmin<Answer extends object>(
  { server, tokenFile }: AdminTarget,
  path: string,
  list: keyof Answer & string,
  terminal: Terminal,
  question?: object,
  method: "POST" | "PUT" | "DELETE" = "POST",
): Promise<Answer | undefined> {
  const url = `${server}${path}`;
  try {
    const token = findToken(tokenFile, terminal.env);
    const { status, body } = await send(new URL(url), token, question, method);
    const answer: unknown = unlessThrown(SyntaxError, () => JSON.parse(body));
    // A refusal may have a body that says what was refused.
    if (isRecord(answer) && (Array.isArray(answer[list]) || isRecord(answer[list]))) return answer as Answer;
    if (answer !== undefined && status >= 200 && status < 300)
      return sayTrouble(terminal, "the answer is not Headgate's; --server takes the HTTP port, 8080 by default");
    // The message names the status already.
    const why = body.trim().replace(new RegExp(`^${status} `), "");
    return sayTrouble(terminal, `${visible(url)} answered ${status}: ${visible(why.slice(0, SHOWN_CHARS_MAX))}`);
  } catch (cause) {
    // One error per address of the name; the first is enough.
    const first: unknown = cause instanceof AggregateError ? cause.errors[0] : cause;
    return sayTrouble(terminal, `can't ask ${visible(url)}: ${visible(errorMessage(first))}`);
  }
}

// Not fetch: it refuses ports that browsers keep for other protocols, such as 10080.
async function send(
  url: URL,
  token: string | undefined,
  question: object | undefined,
  method: string,
): Promise<{ readonly status: number; readonly body: string }> {
  const signal = AbortSignal.timeout(SERVER_TIMEOUT_MS);
  const body = question === undefined ? "" : JSON.stringify(question);
  const call = (url.protocol === "https:" ? https : http).request(url, {
    method: question === undefined ? "GET" : method,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      "content-length": Buffer.byteLength(body),
    },
    signal,
  });
  call.end(body);
  try {
    const [response] = (await once(call, "response")) as [http.IncomingMessage];
    return { status: response.statusCode ?? 0, body: await text(response) };
  } catch (cause) {
    throw signal.aborted ? signal.reason : cause;
  }
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
  const line = readToken(file)
    .split(/\r?\n/)
    .map((text) => text.trim())
    .find((text) => text !== "" && !text.startsWith("#"));
  return line?.split(/\s+/).at(-1);
}

function readToken(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new Error(`can't read ${file}: ${fileTrouble(cause)}`);
  }
}
