// Applies the peer's SETTINGS, which change how we send.

import type { Connection } from "./connection.ts";
import {
  ConnectionError,
  ErrorCode,
  FRAME_BYTES_DEFAULT,
  FRAME_BYTES_LARGEST,
  protocolError,
  requireWindow,
  SETTING_BYTES,
  Setting,
} from "./protocol.ts";

/** Applies the settings in `bytes` from `start` to `end` (exclusive), in order. Throws ConnectionError. */
export function applySettings(connection: Connection, bytes: Buffer, start: number, end: number): void {
  if ((end - start) % SETTING_BYTES !== 0) {
    throw new ConnectionError(ErrorCode.frameSizeError, "SETTINGS that are not pairs of six bytes");
  }
  for (let at = start; at < end; at += SETTING_BYTES) {
    applySetting(connection, bytes.readUInt16BE(at), bytes.readUInt32BE(at + 2));
  }
}

function applySetting({ sender, streams }: Connection, id: number, value: number): void {
  switch (id) {
    case Setting.headerTableSize:
      sender.blocks.encoder.allowTableSize(value);
      break;
    case Setting.enablePush:
      if (value > 1) throw protocolError("ENABLE_PUSH is neither 0 nor 1");
      break;
    case Setting.initialWindowSize: {
      requireWindow(value);
      const change = value - sender.streamWindow;
      sender.streamWindow = value;
      for (const stream of streams.all()) {
        stream.sendWindow += change;
        requireWindow(stream.sendWindow);
      }
      break;
    }
    case Setting.maxFrameSize:
      if (value < FRAME_BYTES_DEFAULT || value > FRAME_BYTES_LARGEST)
        throw protocolError("a MAX_FRAME_SIZE out of bounds");
      // Not used: answers are small.
      break;
  }
}
