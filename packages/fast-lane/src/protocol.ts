// Constants of HTTP/2 (RFC 9113), and of gRPC on it.

/** Types of frames. */
export const FrameType = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

/** Flags of frames; the meaning of a bit depends on the type. */
export const Flag = { ack: 1, endStream: 1, endHeaders: 4, padded: 8, priority: 0x20 } as const;

/** Why a stream or a connection ends. */
export const ErrorCode = {
  noError: 0,
  protocolError: 1,
  internalError: 2,
  flowControlError: 3,
  streamClosed: 5,
  frameSizeError: 6,
  refusedStream: 7,
  cancel: 8,
  compressionError: 9,
  enhanceYourCalm: 11,
} as const;
export type ErrorCode = (typeof ErrorCode)[keyof typeof ErrorCode];

/** Identifiers of settings. */
export const Setting = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const;

/** The first bytes of a client. */
export const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

export const FRAME_HEAD_BYTES = 9;
export const PING_BYTES = 8;
/** Bytes of a WINDOW_UPDATE, and of a RST_STREAM. */
export const WORD_BYTES = 4;
export const SETTING_BYTES = 6;
export const PRIORITY_BYTES = 5;
/** Largest payload that we accept, and that a peer accepts unless its SETTINGS say otherwise. */
export const FRAME_BYTES_DEFAULT = 16_384;
export const FRAME_BYTES_LARGEST = 16_777_215;
export const WINDOW_DEFAULT = 65_535;
export const WINDOW_LARGEST = 0x7fff_ffff;
export const STREAM_ID_LARGEST = 0x7fff_ffff;
export const HEADER_TABLE_DEFAULT = 4_096;
/** Bytes before each gRPC message: one says whether it is compressed, four its length. */
export const MESSAGE_HEAD_BYTES = 5;

/** What a peer may do to have its connection ended or a stream refused. Each has a counter. */
export const TROUBLES = [
  "reset_flood",
  "ping_flood",
  "settings_flood",
  "frame_flood",
  "stream_flood",
  "header_flood",
  "headers_too_large",
  "header_timeout",
  "handshake_timeout",
  "bad_preface",
  "tls_failed",
  "protocol_error",
  "unread_output",
  "unread_output_total",
  "stalled",
  "waiting_streams",
  "partial_requests",
  "header_tables",
  "keepalive_timeout",
  "too_many_connections",
] as const;
export type Trouble = (typeof TROUBLES)[number];

/** Ends the connection by a GOAWAY with this code, and counts as this trouble. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";
  readonly code: ErrorCode;
  readonly trouble: Trouble;

  constructor(code: ErrorCode, message: string, trouble: Trouble = "protocol_error") {
    super(message);
    this.code = code;
    this.trouble = trouble;
  }
}

export function protocolError(message: string): ConnectionError {
  return new ConnectionError(ErrorCode.protocolError, message);
}

/** Throws unless a frame has `size` bytes of payload. */
export function requireSize(frame: string, payload: number, size: number): void {
  if (payload !== size) throw new ConnectionError(ErrorCode.frameSizeError, `a ${frame} that is not ${size} bytes`);
}

/** Throws if a flow control window is larger than the protocol allows. */
export function requireWindow(size: number): void {
  if (size > WINDOW_LARGEST) throw new ConnectionError(ErrorCode.flowControlError, "a window of more than 2^31 - 1");
}
