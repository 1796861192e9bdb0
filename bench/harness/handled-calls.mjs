// Calls that a service in this process handles, from bytes to bytes, and the protobuf fields of their messages.

/** What all calls were answered. */
const answer = { bytes: 0, failed: 0 };
/** Answers every call by counting it. */
export const reply = {
  traceparent: undefined,
  ok: (bytes) => {
    answer.bytes += bytes.length;
  },
  fail: () => {
    answer.failed++;
  },
};

/** Has a service handle so many of the messages, in a random order that is the same in every run. */
export function callsOf(messages) {
  let random = 1;
  return (service, calls) => {
    for (let i = 0; i < calls; i++) {
      random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
      service.handle(messages[(random >>> 8) % messages.length], Number.POSITIVE_INFINITY, reply);
    }
  };
}

/** Ends a bench in which a call was answered by an error. */
export function expectDecisions() {
  if (answer.failed > 0) throw new Error(`${answer.failed} calls were not answered by a decision`);
}

/** Nanoseconds of CPU per call: garbage is paid for, other processes are not. */
export function cpuNsPerCall(calls, run) {
  const before = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(before);
  return ((user + system) * 1_000) / calls;
}

/** A field of bytes, at most 127 of them. */
export function bytes(number, value) {
  return Buffer.concat([Buffer.from([(number << 3) | 2, value.length]), value]);
}

/** A field of text, at most 127 bytes long. */
export function text(number, value) {
  return bytes(number, Buffer.from(value));
}
