// Bodies of questions to /explain and /buckets: what they may hold, and where they are wrong.

import { describe, expect, test } from "vitest";
import { readBucketQuestion, readExplainQuestion } from "../../../../src/operate/http/read-questions.ts";

const asked = (entry: string) => `{"domain":"d","descriptors":[{"entries":[${entry}]}]}`;
const inBase64 = (base64: string) => asked(`{"key":"a","value_base64":"${base64}"}`);
const buckets = (body: string) => readBucketQuestion(Buffer.from(body));
const explain = (body: string) => readExplainQuestion(Buffer.from(body));

test.each(["eP8=", "eP8"])("a value that is no text is named by base64, %s", (base64) => {
  expect(buckets(inBase64(base64)).descriptors).toEqual([
    { entries: [{ key: "a", value: "x\ufffd", valueBase64: "eP8=" }] },
  ]);
});

test("base64 may use the alphabet of URLs", () => {
  expect(explain(inBase64("-_8")).descriptors).toEqual([
    [{ key: "a", value: expect.any(String), valueBase64: "+/8=" }],
  ]);
});

test("a value that is no text is refused as it is: read as U+FFFD it would name another bucket", () => {
  const body = Buffer.from(asked('{"key":"a","value":"?"}').replace("?", "\xff"), "latin1");
  expect(() => readBucketQuestion(body)).toThrow(/expected a body in UTF-8/);
});

test("a question of /explain may have descriptors without entries", () => {
  const question = explain('{"domain":"d","descriptors":[{},{"entries":[]}]}');
  expect(question).toEqual({ domain: "d", descriptors: [[], []] });
});

describe("is refused, and says what was expected where:", () => {
  const many = JSON.stringify({ domain: "d", descriptors: Array.from({ length: 33 }, () => ({})) });
  const unit = '{"domain":"d","descriptors":[{"limit":{"requests_per_unit":1,"unit":"eon"}}]}';
  const tenant = '{"domain":"d","descriptors":[{"tenant":"acme"}]}';
  const limit = '{"domain":"d","descriptors":[{"limit":{"requestsPerUnit":1,"unit":"day"}}]}';
  const value = /as keys of descriptors\[0\]\.entries\[0\], got 'vlaue'; did you mean value\?/;

  test.each<readonly [string, string, RegExp]>([
    ["no JSON", "{", /expected JSON in the body/],
    ["a list", "[]", /expected an object as the body/],
    ["no domain", '{"descriptors":[]}', /expected text of 1 to 1024 bytes as domain/],
    ["an empty domain", '{"domain":"","descriptors":[{}]}', /expected text of 1 to 1024 bytes as domain/],
    ["no descriptor", '{"domain":"d","descriptors":[]}', /expected at least one of descriptors/],
    ["a number as key", asked('{"key":1}'), /descriptors\[0\]\.entries\[0\]\.key/],
    ["too many descriptors", many, /at most 32/],
    ["two values", asked('{"key":"a","value":"x","value_base64":"eA=="}'), /either value or value_base64/],
    ["what is no base64", inBase64("e?=="), /base64 of at most 4096 bytes as d/],
    ["base64 with bits to spare", inBase64("eP9"), /base64/],
    ["a number as base64", asked('{"key":"a","value_base64":7}'), /base64/],
    ["too many bytes", inBase64("A".repeat(5_464)), /at most 4096/],
    ["an unknown key", tenant, /as keys of descriptors\[0\], got 'tenant'/],
    ["a misspelt one", '{"domain":"d","descriptors":[],"domian":"x"}', /the body, got 'domian'; did you mean domain\?/],
    ["a misspelt one of an entry", asked('{"key":"a","vlaue":"x"}'), value],
    [
      "a misspelt one of a limit",
      limit,
      /of descriptors\[0\]\.limit, got 'requestsPerUnit'; did you mean requests_per_unit\?/,
    ],
    ["an unknown unit", unit, /descriptors\[0\]\.limit\.unit/],
    ["a list as a unit", unit.replace('"eon"', '["day"]'), /descriptors\[0\]\.limit\.unit/],
  ])("%s", (_, body, says) => {
    expect(() => buckets(body)).toThrow(says);
    expect(() => explain(body)).toThrow(says);
  });

  test.each<readonly [string, string, RegExp]>([
    ["a text for a switch", '{"domain":"d","global_limit":"yes"}', /true or false as global_limit/],
    ["nothing", '{"domain":"d"}', /expected at least one of descriptors, or global_limit: true/],
    ["its misspelt name", '{"domain":"d","globalLimit":true}', /got 'globalLimit'; did you mean global_limit\?/],
  ])("%s, of buckets", (_, body, says) => {
    expect(() => buckets(body)).toThrow(says);
  });
});
