// Passes streams that are not plain unary calls to the grpc-js server of this process: over an HTTP/2 session inside the process, one per
// connection, which is opened for the first such stream and closed after the last. handed-stream.ts carries the single stream.

import { type ClientHttp2Session, connect, type OutgoingHttpHeaders } from "node:http2";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { duplexPair } from "./duplex-pair.ts";
import type { FairHandOver, TurnTaker } from "./fair-hand-over.ts";
import { HandedStream } from "./handed-stream.ts";
import type { HeaderList } from "./hpack/header-list.ts";
import { NameId, PEER_ADDRESS_NAME, PEER_CERTIFICATE_NAME } from "./hpack/header-names.ts";
import type { Lane } from "./lane.ts";
import { ErrorCode } from "./protocol.ts";
import type { StreamOwner } from "./stream-owner.ts";

// Never resolved: the session's connection is made here.
const INNER_AUTHORITY = "http://headgate.invalid";

/** The connection, as the hand-over sees it. */
export interface HandOverOwner extends StreamOwner {
  readonly lane: Lane;
  readonly socket: Socket;
}

export class HandOver implements TurnTaker {
  turns = 0;
  readonly address: string;
  readonly #connection: HandOverOwner;
  readonly #turns: FairHandOver;
  #session: ClientHttp2Session | undefined;
  // Streams that grpc-js has or is about to get; and those of them that are not ending, oldest first.
  readonly #open = new Set<HandedStream>();
  readonly #lasting = new Set<HandedStream>();
  // Work that waits for a turn.
  #work: (() => void)[] = [];

  constructor(connection: HandOverOwner) {
    this.#connection = connection;
    this.#turns = connection.lane.fairHandOver;
    this.address = connection.socket.remoteAddress ?? "";
  }

  get streams(): number {
    return this.#lasting.size;
  }

  /** Opens a stream with these headers at grpc-js when its turn comes; or returns the code to refuse it with. */
  open(id: number, list: HeaderList, isEnd: boolean): HandedStream | ErrorCode {
    const { counts, bounds } = this.#connection.lane;
    this.#turns.noteBegun();
    const headers = this.#headersOf(list);
    if (headers === undefined) return ErrorCode.protocolError;
    if (this.#open.size >= bounds.handedStreamsMax || !this.#turns.mayOpen(this)) {
      counts.troubles.handed_streams++;
      return ErrorCode.refusedStream;
    }
    const stream = new HandedStream(this.#connection, id, {
      request: () => this.#innerSession().request(headers, { endStream: isEnd }),
      later: (work) => this.#later(work),
      ending: () => this.#noteEnding(stream),
      gone: () => {
        if (!this.#open.delete(stream)) return;
        this.#noteEnding(stream);
        if (this.#open.size === 0) this.#later(() => this.#closeIdle());
      },
    });
    this.#open.add(stream);
    this.#lasting.add(stream);
    this.#turns.noteOpened(this);
    counts.handedStreams++;
    return stream;
  }

  takeTurn(): boolean {
    this.#work.shift()?.();
    return this.#work.length > 0;
  }

  displaceOne(): boolean {
    this.#connection.lane.counts.troubles.handed_streams++;
    return [...this.#lasting].reverse().some((stream) => stream.displace());
  }

  #noteEnding(stream: HandedStream): void {
    if (this.#lasting.delete(stream)) this.#turns.noteEnding(this);
  }

  /** Ends the inner session with all its streams, and drops the work that waits. */
  close(): void {
    this.#work = [];
    const session = this.#session;
    this.#session = undefined;
    // In a turn of its own, because thousands of connections may end at once.
    if (session !== undefined) this.#turns.endLater(() => session.destroy());
  }

  // Closed when it has no streams, because a session takes more memory than a stream.
  #closeIdle(): void {
    if (this.#open.size > 0) return;
    this.#session?.destroy();
    this.#session = undefined;
  }

  #later(work: () => void): void {
    this.#work.push(work);
    this.#turns.enter(this);
  }

  #innerSession(): ClientHttp2Session {
    if (this.#session !== undefined && !this.#session.closed && !this.#session.destroyed) return this.#session;
    const [near, far] = duplexPair();
    const session = connect(INNER_AUTHORITY, { createConnection: () => near, settings: { enablePush: false } });
    // An error of the session ends its streams, and each stream tells its caller.
    session.on("error", () => session.destroy());
    this.#connection.lane.inject(far);
    this.#session = session;
    return session;
  }

  // Undefined if a value has characters that no header may have. Fields that only this process may set are removed and set anew.
  #headersOf(list: HeaderList): OutgoingHttpHeaders | undefined {
    const headers: Record<string, string | string[]> = Object.create(null) as Record<string, string | string[]>;
    for (let i = 0; i < list.count; i++) {
      const name = list.names[i] as string;
      const value = list.values[i] as string;
      if (/[\0\r\n]/.test(value)) return undefined;
      if (list.nameIds[i] === NameId.reserved) continue;
      const before = headers[name];
      if (before === undefined) headers[name] = value;
      else if (typeof before === "string") headers[name] = [before, value];
      else before.push(value);
    }
    const { socket } = this.#connection;
    if (socket.remoteAddress !== undefined) headers[PEER_ADDRESS_NAME] = `${socket.remoteAddress}:${socket.remotePort}`;
    const certificate = certificateOf(socket as Partial<TLSSocket>);
    if (certificate !== undefined) headers[PEER_CERTIFICATE_NAME] = certificate;
    return headers;
  }
}

// Fingerprint and names of a verified client certificate, in printable ASCII.
function certificateOf(socket: Partial<TLSSocket>): string | undefined {
  if (socket.authorized !== true) return undefined;
  const { fingerprint256, subjectaltname, subject } = socket.getPeerCertificate?.() ?? {};
  if (fingerprint256 === undefined) return undefined;
  const names = subjectaltname ?? `CN:${subject?.CN ?? ""}`;
  return `sha256=${fingerprint256.replaceAll(":", "").toLowerCase()};names=${encodeURIComponent(names)}`;
}
