// The path of a request's URL: whatever the caller writes, one path has one value.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { runs } from "../../../test/support/runs.ts";
import { pathOf } from "../src/path-of.ts";

describe("pathOf", () => {
  // Promise(clients): `pathOf` gives a path one value, however a caller writes it.
  test.each<[path: string, spellings: (string | undefined)[]]>([
    [
      "/login",
      ["/login", "/login?1", "/login?a=/b?c#d", "/login#", "/login/", "//login", "/\\login", "/./login", "/a/../login"]
        .concat(["/a/%2e%2E/login", "/%6Cog%69n", "/login//", "http://example.com/login?x", "HTTP://a:1/login"])
        .concat(["/../login", "/%2e/login", "//a/../login//."]),
    ],
    ["/", [undefined, "", "/", "//", "?a", "/?", "/..", "http://example.com", "/%2E"]],
    ["/a%2Fb", ["/a%2fb", "/a%2Fb"]],
    ["/%7Ba%7D/%C3%A4", ["/{a}/\u00e4", "/%7ba%7d/%c3%a4"]],
    ["/a%252e", ["/a%252e"]],
    ["/Login", ["/Login"]],
    ["*", ["*", "*?a"]],
    ["/%25zz/%25", ["/%zz/%", "/%25zz/%25"]],
  ])("is %s for each of its spellings", (path, spellings) => {
    expect(spellings.map(pathOf)).toEqual(spellings.map(() => path));
  });

  test("is its own path, and has no query, for any text", () => {
    const piece = fc.constantFrom(
      "/",
      "//",
      ".",
      "..",
      "a",
      "B",
      "%2e",
      "%2F",
      "%61",
      "%",
      "?",
      "#",
      "\\",
      " ",
      "~",
      ":",
    );
    const url = fc.oneof(
      fc.string(),
      fc.array(piece).map((pieces) => `/${pieces.join("")}`),
    );
    fc.assert(
      fc.property(url, (text) => {
        const path = pathOf(text);
        expect(pathOf(path)).toBe(path);
        expect(path).not.toMatch(/[?#]/);
      }),
      { numRuns: runs(2_000) },
    );
  });
});
