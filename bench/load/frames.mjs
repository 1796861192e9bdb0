// The bytes of calls to ShouldRateLimit, ready to send: one template per shape, of which each call patches the stream, the
// digits of its keys and what its headers vary. Making them costs so little that one core of callers can fill one of servers.

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

/** Messages by name: each a list of descriptors of entries; a value of `#` becomes the digits of the call's key. */
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
  /** Each call brings its limit along: 4 million per hour, which nobody uses up. */
  brought: [[["tenant", "#"]]],
};

const LIMIT = Buffer.from([1 << 3, 0x80, 0x92, 0xf4, 0x01, 2 << 3, 3]);

/** The bytes of a RateLimitRequest for domain `edge`. */
export function messageOf(name) {
  const descriptors = MESSAGES[name].map((entries) =>
    field(
      2,
      Buffer.concat([
        ...entries.map(([key, value]) => field(1, Buffer.concat([text(1, key), text(2, value)]))),
        ...(name === "brought" ? [field(2, LIMIT)] : []),
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
    return { bytes, dataAt: 9 + block.length + extra.length, digitsAt: placesOf(bytes, "#".repeat(KEY_DIGITS)), vary };
  };
  return { first: build(first), later: build(later), dataLength: prefixed.length };
}

/** Puts the call of `streamId` and key `key` at `at` of `target`; returns where it ends. */
export function writeCall({ bytes, dataAt, digitsAt, vary }, target, at, streamId, key) {
  target.set(bytes, at);
  writeUint32(target, at + 5, streamId);
  writeUint32(target, at + dataAt + 5, streamId);
  for (let i = 0; i < digitsAt.length; i++) writeDigits(target, at + digitsAt[i], key);
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
  return field(number, Buffer.from(value.replace("#", "#".repeat(KEY_DIGITS))));
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
