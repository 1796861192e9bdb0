// Streams that the fast lane does not answer: refused until they are handed to grpc-js.
import type { Connection } from "./connection.ts";
import type { HeaderList } from "./header-list.ts";
import { ErrorCode } from "./protocol.ts";
import type { Stream } from "./stream.ts";
export class HandOver {
  constructor(_connection: Connection) {
    // Nothing is kept yet.
  }
  open(_id: number, _list: HeaderList, _isEnd: boolean): Stream | ErrorCode {
    return ErrorCode.refusedStream;
  }
  close(): void {
    // Nothing is open.
  }
}
