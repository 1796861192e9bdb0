// Why an address can't be listened on, from what Node says.

import { expect, test } from "vitest";
import { cannotListen } from "../../../src/base/cannot-listen.ts";

test.each([
  ["listen EADDRINUSE: address already in use 127.0.0.1:8080", "the address is in use"],
  ["listen EACCES: permission denied 127.0.0.1:80", "permission denied"],
  ["listen EACCES: permission denied /no/folder/x.sock", "its folder does not exist, or this user may not write there"],
  ["listen EADDRNOTAVAIL: address not available 192.0.2.1:80", "this machine has no such address"],
  ["getaddrinfo ENOTFOUND nowhere.test", "the host name is unknown"],
  ["something new", "something new"],
])("%s", (says, reason) => {
  const error = cannotListen("HTTP", "there", "HOST and PORT", new Error(says));
  expect(error.message).toBe(`HTTP can't listen on there (HOST and PORT): ${reason}`);
});
