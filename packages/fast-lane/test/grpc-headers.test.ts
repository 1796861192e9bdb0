// What a grpc-timeout means; test/integration/odd-requests.test.ts has those that are none.

import { describe, expect, test } from "vitest";
import { readTimeoutUs } from "../src/grpc-headers.ts";

describe("a timeout", () => {
  test.each([
    { text: "1H", us: 3_600_000_000 },
    { text: "2M", us: 120_000_000 },
    { text: "3S", us: 3_000_000 },
    { text: "20m", us: 20_000 },
    { text: "99999999u", us: 99_999_999 },
    { text: "500n", us: 0.5 },
    { text: "0m", us: 0 },
  ])("of $text is $us microseconds", ({ text, us }) => expect(readTimeoutUs(text)).toBe(us));
});
