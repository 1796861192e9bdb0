// Names of package, image and chart: in one file, and from there wherever people copy them.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { named, PLACES } from "../../../deploy/names.mjs";

const ROOT = resolve(import.meta.dirname, "../../..");
const read = (file: string) => readFileSync(resolve(ROOT, file), "utf8");
const names = JSON.parse(read("deploy/names.json"));
const OTHER = {
  published: true,
  repository: "https://git.example.com/gate",
  package: "gatekeeper",
  client: "@gatekeeper/client",
  image: "registry.example.com/team/headgate",
  chart: "oci://registry.example.com/charts/headgate",
};

describe.each(Object.keys(PLACES))("%s", (file) => {
  test("has the names of deploy/names.json", () => {
    expect(named(file, read(file), names)).toBe(read(file));
  });

  test("takes others, and the same again", () => {
    const changed = named(file, read(file), OTHER);
    expect(changed).toContain(OTHER.image);
    expect(named(file, changed, OTHER)).toBe(changed);
    expect(named(file, changed, names)).toBe(read(file));
  });
});

test("no other file of deploy names the image", () => {
  const grep = ["grep", "-lE", "image: .*headgate:[0-9]", "--", "deploy"];
  const files = execFileSync("git", grep, { cwd: ROOT, encoding: "utf8" }).trim().split("\n");
  expect(files.filter((file) => !(file in PLACES))).toEqual([]);
});

test("the README says once that nothing is published, in 150 lines at most", () => {
  const text = read("README.md");
  expect(text.match(/not published/gi) ?? []).toHaveLength(names.published ? 0 : 1);
  expect(text.split("\n").length).toBeLessThanOrEqual(151);
});
