// What the engine expects of its host, for a browser: Buffer, and the modules that src/base/host.ts asks for. Must be imported first.

import { Buffer } from "buffer/index.js";
import * as re2 from "re2js";
import * as temporal from "temporal-polyfill";
import { sha256 } from "./sha256.ts";

const PACKAGES: Readonly<Record<string, unknown>> = { re2js: re2, "temporal-polyfill": temporal };

/** Node's Hash, as far as the engine uses it. */
class Hash {
  #bytes = Buffer.alloc(0);

  update(data: string, encoding: BufferEncoding = "utf8"): this {
    this.#bytes = Buffer.concat([this.#bytes, Buffer.from(data, encoding)]);
    return this;
  }

  digest(encoding: "hex" | "base64url"): string {
    const digest = Buffer.from(sha256(this.#bytes));
    if (encoding === "hex") return digest.toString("hex");
    return digest.toString("base64").replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  }
}

const MODULES: Readonly<Record<string, object>> = {
  "node:crypto": {
    createHash: () => new Hash(),
    randomBytes: (size: number) => Buffer.from(crypto.getRandomValues(new Uint8Array(size))),
  },
  "node:buffer": { isUtf8 },
  "node:util": { styleText: (_colour: string, text: string) => text },
  "node:timers/promises": { setImmediate: () => new Promise((resolve) => setTimeout(resolve)) },
  "node:module": { createRequire: () => (name: string) => PACKAGES[name] },
};

function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

Object.assign(Buffer.prototype, {
  latin1Slice(this: Buffer, start: number, end: number) {
    return this.toString("latin1", start, end);
  },
  latin1Write(this: Buffer, text: string, at: number, length: number) {
    return this.write(text, at, length, "latin1");
  },
});

// The engine's timers never keep a process alive; a page has no process.
const startInterval: (step: () => void, ms: number) => unknown = globalThis.setInterval;
const unref = { unref: (): unknown => undefined };

Object.assign(globalThis, {
  Buffer,
  // Browsers keep shared memory for pages with headers that a plain file server doesn't send; nobody shares it here.
  SharedArrayBuffer: ArrayBuffer,
  process: { env: {}, getBuiltinModule: (name: string) => MODULES[name] },
  setInterval: (step: () => void, ms: number) => Object.assign(Object(startInterval(step, ms)), unref),
});
