// The bytes of calls to ShouldRateLimit, ready to send: one template per shape, of which each call patches the stream, the
// digits of its keys and numbers and what its headers vary. Making them costs so little that one core of callers can fill one of servers.

import { randomUUID } from "node:crypto";

const HEADERS = 1;
const DATA = 0;
const END_HEADERS = 4;
const END_STREAM = 1;
const KEY_DIGITS = 7;

/** Client preface, SETTINGS with a large window for answers, and as much for the connection. */
export const OPENING = Buffer.concat([
  Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  frame(4, 0, 0, Buffer.from([0, 4, 0x3f, 0xff, 0xff, 0xff, 0, 2, 0, 0, 0, 0])),
  frame(8, 0, 0, Buffer.from([0x3f, 0, 0, 0])),
]);

/** A frame of HTTP/2. */
export function frame(type, flags, streamId, payload) {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

/** Ids of one run, as long as a UUID: no other run makes the same ones. */
const ID = `${randomUUID().slice(0, -KEY_DIGITS)}@`;

/** Messages that a connection sends in turn, the second about what the first was about some rounds before. */
export const PAIRS = { holds: ["reserve", "settle"] };

/**
 * Messages by name: each a list of descriptors of entries; `#` in a value becomes the digits of the call's key, `@` those of its
 * number.
 */
export const MESSAGES = {
  hot: [[["tenant", "acme"]]],
  spread: [[["tenant", "#"]]],
  two: [
    [["tenant", "#"]],
    [
      ["tenant", "acme"],
      ["path", "#"],
    ],
  ],
  many: Array.from({ length: 8 }, (_, i) => [[`kind_${i}`, "#"]]),
  rules: [[["route", "route-#"]]],
  /** A call that holds 2,000, and the one that settles it at 700. */
  reserve: [
    [
      ["tenant", "#"],
      ["request_id", ID],
      ["max_tokens", "2000"],
    ],
  ],
  settle: [
    [
      ["tenant", "#"],
      ["request_id", ID],
      ["settle", "used"],
    ],
  ],
  /** Each call brings its limit along: 4 million per hour, which nobody uses up. */
  brought: [[["tenant", "#"]]],
};

const LIMIT = Buffer.from([1 << 3, 0x80, 0x92, 0xf4, 0x01, 2 << 3, 3]);
/** What descriptors of some messages carry beside their entries: `limit`, `hits_addend`. */
const MORE = { brought: field(2, LIMIT), settle: field(3, Buffer.from([1 << 3, 0xbc, 0x05])) };

/** The bytes of a RateLimitRequest for domain `edge`. */
export function messageOf(name) {
  const descriptors = MESSAGES[name].map((entries) =>
    field(
      2,
      Buffer.concat([
        ...entries.map(([key, value]) => field(1, Buffer.concat([text(1, key), text(2, value)]))),
        MORE[name] ?? Buffer.alloc(0),
      ]),
    ),
  );
  return Buffer.concat([text(1, "edge"), ...descriptors]);
}

/**
 * The template of a call: the same bytes whenever the headers are, after a first call that puts them into the server's table.
 * `vary` is "", "timeout" (another grpc-timeout in every call) or "traceparent"; `path` is the method's.
 */
export function templateOf({ message, path, vary = "" }) {
  const fixed = [
    [":path", path],
    [":authority", "ratelimit:8081"],
    ["content-type", "application/grpc"],
    ["te", "trailers"],
  ];
  const varied = { "": [], timeout: [["grpc-timeout", "0000000u"]], traceparent: [["traceparent", traceOf(0)]] }[vary];
  // :method POST and :scheme http stand in HPACK's static table; what is put into the other table last has index 62.
  const first = Buffer.concat([Buffer.from([0x83, 0x86]), ...fixed.map(([name, value]) => literal(0x40, name, value))]);
  const later = Buffer.from([0x83, 0x86, ...fixed.map((_, i) => 0x80 + 62 + fixed.length - 1 - i)]);
  const extra = Buffer.concat(varied.map(([name, value]) => literal(0, name, value)));
  const body = messageOf(message);
  const prefixed = Buffer.concat([Buffer.from([0, 0, 0, 0, body.length]), body]);
  const build = (block) => {
    const bytes = Buffer.concat([
      frame(HEADERS, END_HEADERS, 0, Buffer.concat([block, extra])),
      frame(DATA, END_STREAM, 0, prefixed),
    ]);
    const placesOfDigits = (sign) => placesOf(bytes, sign.repeat(KEY_DIGITS));
    return {
      bytes,
      dataAt: 9 + block.length + extra.length,
      keysAt: placesOfDigits("#"),
      numbersAt: placesOfDigits("@"),
      vary,
    };
  };
  return { first: build(first), later: build(later), dataLength: prefixed.length };
}

/** Puts the call of `streamId`, key and number at `at` of `target`; returns where it ends. */
export function writeCall({ bytes, dataAt, keysAt, numbersAt, vary }, target, at, streamId, key, number = 0) {
  target.set(bytes, at);
  writeUint32(target, at + 5, streamId);
  writeUint32(target, at + dataAt + 5, streamId);
  for (let i = 0; i < keysAt.length; i++) writeDigits(target, at + keysAt[i], key);
  for (let i = 0; i < numbersAt.length; i++) writeDigits(target, at + numbersAt[i], number);
  // The value ends where the DATA frame begins.
  if (vary === "timeout") writeDigits(target, at + dataAt - 8, 1_000_000 + ((streamId * 7919) % 8_999_999));
  else if (vary === "traceparent") target.latin1Write(traceOf(streamId), at + dataAt - 55, 55);
  return at + bytes.length;
}

function writeUint32(target, at, value) {
  target[at] = value >>> 24;
  target[at + 1] = (value >>> 16) & 255;
  target[at + 2] = (value >>> 8) & 255;
  target[at + 3] = value & 255;
}

function writeDigits(target, at, value) {
  let rest = value;
  for (let i = KEY_DIGITS - 1; i >= 0; i--) {
    target[at + i] = 48 + (rest % 10);
    rest = (rest / 10) | 0;
  }
}

const SPANS = Array.from({ length: 4096 }, () =>
  Array.from({ length: 48 }, () => "0123456789abcdef"[(Math.random() * 16) | 0]).join(""),
);

function traceOf(number) {
  const digits = SPANS[(number >> 1) & 4095];
  return `00-${digits.slice(0, 32)}-${(number >>> 0).toString(16).padStart(16, "0")}-01`;
}

function literal(kind, name, value) {
  return Buffer.concat([
    Buffer.from([kind, name.length]),
    Buffer.from(name),
    Buffer.from([value.length]),
    Buffer.from(value),
  ]);
}

function text(number, value) {
  return field(number, Buffer.from(value.replace(/[#@]/, (sign) => sign.repeat(KEY_DIGITS))));
}

function field(number, bytes) {
  if (bytes.length > 127) throw new Error("a field of these messages is at most 127 bytes long");
  return Buffer.concat([Buffer.from([number * 8 + 2, bytes.length]), bytes]);
}

function placesOf(bytes, what) {
  const places = [];
  for (let at = bytes.indexOf(what); at >= 0; at = bytes.indexOf(what, at + what.length)) places.push(at);
  return places;
}
