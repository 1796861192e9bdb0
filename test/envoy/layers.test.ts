// docs/layers.md, as it stands there, with a real token.

import { createHmac } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { type Config, listener, route } from "./support/bootstrap.ts";
import { Rig } from "./support/rig.ts";

const page = readFileSync(resolve(import.meta.dirname, "../../docs/layers.md"), "utf8");
const [rules = "", filter = "", routes = ""] = [...page.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(
  ([, text]) => text ?? "",
);
const KEY = "a secret that only this test and its Envoy know";
const ISSUER = "https://login.example.com";

const base64 = (text: string) => Buffer.from(text).toString("base64url");

function tokenOf(claims: Config): string {
  const head = base64(JSON.stringify({ alg: "HS256", typ: "JWT", kid: "k" }));
  const signed = `${head}.${base64(JSON.stringify({ iss: ISSUER, exp: 4_102_444_800, ...claims }))}`;
  return `${signed}.${createHmac("sha256", KEY).update(signed).digest("base64url")}`;
}

let rig: Rig;
beforeAll(async () => {
  const jwks = join(temporaryFolder("jwks"), "jwks.json");
  writeFileSync(jwks, JSON.stringify({ keys: [{ kty: "oct", alg: "HS256", kid: "k", k: base64(KEY) }] }));
  const before = parse(filter.replace("/etc/envoy/jwks.json", jwks)) as Config[];
  const { rate_limits: rateLimits } = parse(routes) as { readonly rate_limits: Config[] };
  rig = await Rig.start({
    rules,
    listeners: [
      listener({
        name: "layers",
        before,
        routes: [route({ prefix: "/", rateLimits, domain: "layers" })],
        filter: { domain: "layers" },
      }),
    ],
  });
});

/** The statuses of so many calls, one after another. */
function calls(count: number, claims: Config, model = "small"): Promise<readonly number[]> {
  const headers = { authorization: `Bearer ${tokenOf(claims)}`, "x-model": model };
  return rig.caller("layers").statuses(count, "/", headers);
}

const some = (count: number, status: number) => Array.from({ length: count }, () => status);

// Promise(calls): One call counts for user, team and organization by the claims of its token; a layer's refusal costs the others nothing.
test("each layer refuses in its turn, and refusals cost nothing in the others", async () => {
  const acme = { org: "acme", team: "search" };
  expect(await calls(6, { ...acme, sub: "ann" })).toEqual([...some(5, 200), 429]);
  // Three of the team's eight are left, and ann's refused call took none of them.
  expect(await calls(4, { ...acme, sub: "bob" })).toEqual([...some(3, 200), 429]);
  expect(await calls(4, { org: "acme", team: "ads", sub: "eve" }, "large")).toEqual([...some(3, 200), 429]);
  // Eleven of the organization's twenty are spent: the large model's refusal took none.
  expect(await calls(2, { org: "acme", team: "ads", sub: "eve" })).toEqual(some(2, 200));
  expect(await calls(8, { org: "acme", sub: "service" })).toEqual([...some(7, 200), 429]);
  expect(await calls(1, { org: "other", team: "search", sub: "ann" }, "large")).toEqual([200]);
});

test("without a token that it can verify Envoy asks nobody", async () => {
  expect(await rig.caller("layers").statuses(1, "/")).toEqual([401]);
  const forged = tokenOf({ org: "acme" }).replace(/.{4}$/, "AAAA");
  expect(await rig.caller("layers").statuses(1, "/", { authorization: `Bearer ${forged}` })).toEqual([401]);
});
