// The forms of descriptors that the box of the operator's page reads: those of the command line, of logs, of /json.

import fc from "fast-check";
import { expect, test } from "vitest";
import { doubtOf, readDescriptors, typedDescriptor } from "../../../page/read-descriptor.mjs";
import { hides } from "../../../page/words.mjs";
import { doubtOf as doubtOfThere, readTyped } from "../../../src/engine/domain/entry-text.ts";

const ACME = { entries: [{ key: "tenant", value: "acme" }] };

test.each([
  { name: "an entry as it is typed", text: "tenant=acme", read: { descriptors: [ACME] } },
  { name: "a domain before it", text: "--domain edge tenant=acme", read: { domain: "edge", descriptors: [ACME] } },
  { name: "a line for each descriptor", text: "tenant=acme\n\ntenant=acme\n", read: { descriptors: [ACME, ACME] } },
  {
    name: "bytes that are no text, in JSON",
    text: '[{"entries":[{"key":"tenant","value_base64":"eP8="}]}]',
    read: { descriptors: [{ entries: [{ key: "tenant", value_base64: "eP8=" }] }] },
  },
  {
    name: "bytes as the server shows them, with text in their place",
    text: '[{"entries":[{"key":"tenant","value":"x\ufffd","value_base64":"eP8="}]}]',
    read: { descriptors: [{ entries: [{ key: "tenant", value_base64: "eP8=" }] }] },
  },
  {
    name: "anything else as it is, for the server to refuse",
    text: '{"descriptors":[null,{"entries":[null,{"key":1}]}]}',
    read: { descriptors: [{ entries: [] }, { entries: [{ value: "" }, { key: 1, value: "" }] }] },
  },
  {
    name: "a line of the decision log",
    text: '{"at":"2026-11-22T13:00:00.000000Z","domain":"edge","descriptors":[{"entries":[{"key":"tenant","value":"acme"}]}],"code":"OVER_LIMIT","limit":"edge/tenant"}',
    read: { domain: "edge", descriptors: [ACME] },
  },
  {
    name: "descriptors of dynamic metadata, as Envoy's access log prints them",
    text: '[{"entries":["tenant=acme"],"limit":"requests_per_unit:5"}]',
    read: { descriptors: [ACME] },
  },
  {
    name: "a whole line of Envoy's access log with the metadata in it",
    text: '{"path":"/","ratelimit":{"code":"OVER_LIMIT","domain":"edge","descriptors":[{"entries":["tenant=acme"]}]}}',
    read: { domain: "edge", descriptors: [ACME] },
  },
  {
    name: "a limit that the call brings along, for its bucket",
    text: '{"domain":"edge","descriptors":[{"entries":[{"key":"a"}],"limit":{"requests_per_unit":5,"unit":"minute"}}]}',
    read: {
      domain: "edge",
      descriptors: [{ entries: [{ key: "a", value: "" }], limit: { requests_per_unit: 5, unit: "minute" } }],
    },
  },
])("reads $name", ({ text, read }) => {
  expect(readDescriptors(text)).toEqual(read);
});

test.each([
  { name: "nothing", text: " ", problem: /such as tenant=acme/ },
  { name: "an empty key", text: "a=1,,b=2", problem: /got 'a=1,,b=2'/ },
  { name: "bytes", text: "tenant=x\\xff", problem: /value_base64/ },
  { name: "half of a line", text: '{"domain":"edge","descr', problem: /breaks off/ },
  { name: "a line that names a rule only", text: '{"rule":"edge/tenant"}', problem: /names the rule edge\/tenant/ },
])("says what was expected of $name", ({ text, problem }) => {
  expect(readDescriptors(text)).toEqual({ problem: expect.stringMatching(problem) });
});

test("what is typed means what it means at the command line, and is doubted there, too", () => {
  const piece = fc.constantFrom("a", "b=", ",", " c", ", k=", "\\,", "\\\\", "\u00fc", "\\", "k=v", "\\\\x41", "\\xg");
  fc.assert(
    fc.property(fc.array(piece, { minLength: 1, maxLength: 8 }), (pieces) => {
      const text = `k${pieces.join("z")}z`;
      const [read, there] = [readDescriptors(text), readTyped(text)];
      if (typeof there === "string" || "problem" in read) {
        expect("problem" in read).toBe(typeof there === "string");
        return;
      }
      expect(read.descriptors.flatMap(({ entries }) => entries.map(bytesOf))).toEqual(there.map(bytesOf));
      expect(doubtOf(read.descriptors) === undefined).toBe(doubtOfThere(there) === undefined);
    }),
  );
});

function bytesOf(entry: { key: string; value?: string; value_base64?: string; valueBase64?: string }): string {
  const { key, value = "", valueBase64, value_base64: base64 = valueBase64 } = entry;
  return `${key}=${Buffer.from(base64 ?? value, base64 === undefined ? "utf8" : "base64").toString("hex")}`;
}

test("a key that is put into the box reads as the same entries", () => {
  const entry = fc.record({ key: fc.stringMatching(/^[-a-z_[{ ]{0,4}[a-z]$/), value: fc.string({ unit: "grapheme" }) });
  fc.assert(
    fc.property(fc.array(entry, { minLength: 1, maxLength: 4 }), (entries) => {
      const typed = typedDescriptor(entries, hides) ?? JSON.stringify([{ entries }]);
      expect(readDescriptors(typed)).toEqual({ descriptors: [{ entries }] });
    }),
  );
});
