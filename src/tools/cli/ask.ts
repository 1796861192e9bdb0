// `headgate ask`: sends real ShouldRateLimit requests over gRPC. How an answer looks is left to answer-text.ts.

import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import { type Clock, SystemClock } from "../../base/clock.ts";
import { visible } from "../../base/visible.ts";
import { SHOULD_RATE_LIMIT_PATH } from "../../grpc/transport/load-proto.ts";
import { methodDefinition } from "../../grpc/transport/service-definitions.ts";
import { type RateLimitAnswer, readMessage } from "../mirror/answer.ts";
import { answerJson, answerLine, answerText, totalsText } from "./answer-text.ts";
import type { TypedDescriptor } from "./arguments.ts";
import { paint, type Terminal } from "./terminal.ts";

/** Flags of `ask`. */
export interface AskFlags {
  readonly domain: string;
  /** `host:port`. */
  readonly server: string;
  /** Undefined: the protocol's default, one. */
  readonly hits?: number;
  readonly peek?: true;
  readonly refund?: true;
  readonly times: number;
  /** Longest wait for an answer, in milliseconds. */
  readonly timeout: number;
  readonly json?: true;
}

/**
 * Sends the request `times` times. Returns the exit code: 0 if all passed, 1 if one was over limit, 2 at the first
 * error.
 */
export async function ask(
  descriptors: readonly TypedDescriptor[],
  flags: AskFlags,
  terminal: Terminal,
): Promise<0 | 1 | 2> {
  // With its scheme, so that a host named as another scheme is a host.
  const client = new Client(`dns:${flags.server}`, credentials.createInsecure());
  const clock = new SystemClock();
  const totals = { passed: 0, refused: 0 };
  try {
    for (let i = 0; i < flags.times; i++) {
      const startedUs = clock.nowUs();
      const answer = await send(client, descriptors, flags, clock);
      const elapsedMs = (clock.nowUs() - startedUs) / 1_000;
      if (answer.overall_code === "OVER_LIMIT") totals.refused++;
      else totals.passed++;
      const shown = { answer, elapsedMs, descriptors, flags, number: i + 1 };
      if (flags.json) terminal.out(`${JSON.stringify(answerJson(shown))}\n`);
      else terminal.out(flags.times > 1 ? answerLine(shown, terminal) : answerText(shown, terminal));
    }
    if (flags.times > 1 && !flags.json) terminal.out(totalsText(totals, terminal));
    return totals.refused > 0 ? 1 : 0;
  } catch (error) {
    if (!isServiceError(error)) throw error;
    terminal.err(`${paint(terminal, "red", errorText(error, flags))}\n`);
    return 2;
  } finally {
    client.close();
  }
}

function send(
  client: Client,
  descriptors: readonly TypedDescriptor[],
  flags: AskFlags,
  clock: Clock,
): Promise<RateLimitAnswer> {
  const deadline = clock.nowUs() / 1_000 + flags.timeout;
  const { path, requestSerialize } = methodDefinition(SHOULD_RATE_LIMIT_PATH);
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      path,
      requestSerialize,
      readMessage,
      requestOf(descriptors, flags),
      { deadline },
      (error, answer) => {
        if (error !== null) reject(error);
        else resolve(answer as RateLimitAnswer);
      },
    );
  });
}

function requestOf(descriptors: readonly TypedDescriptor[], { domain, hits, peek, refund }: AskFlags): object {
  // 0 hits of a request count as 1, so a peek sets 0 on every descriptor.
  const onDescriptor = peek || refund ? { hits_addend: { value: peek ? 0 : (hits ?? 1) } } : {};
  return {
    domain,
    descriptors: descriptors.map((entries) => ({ entries, ...onDescriptor, is_negative_hits: refund === true })),
    hits_addend: hits ?? 0,
  };
}

function errorText(error: ServiceError, { server, timeout }: AskFlags): string {
  const name = status[error.code] ?? String(error.code);
  if (error.code === status.DEADLINE_EXCEEDED) return `${name}: no answer from ${visible(server)} within ${timeout} ms`;
  if (/Protocol error/.test(error.details))
    return `${name}: ${visible(server)} doesn't speak gRPC. Headgate's gRPC port is 8081 by default; 8080 is HTTP.`;
  const hint = /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|No connection|Name resolution/.test(error.details)
    ? `\nIs the service running there? --server says where to ask; its gRPC port is 8081 by default.`
    : "";
  return `${name}: ${visible(plainDetails(error.details))}${hint}`;
}

/** The text of an error: the system's words, without those that the library adds. */
function plainDetails(details: string): string {
  return details
    .replace(/^(?:No connection established\. Last error: )+(?:Error: )?/, "can't connect: ")
    .replace(/ \(\d{4}-[\w:.-]+\)/, "")
    .replace(/\.? *Resolution note: *$/, "")
    .replace("for target dns:", "for ");
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && "code" in error && "details" in error;
}
