// The drawn pictures of the docs are those that test/support/drawn-pictures.ts draws; `vitest -u` writes them.

import { expect, test } from "vitest";
import { drawHolds, drawWindowEdges } from "../../../support/drawn-pictures.ts";

test.each([
  ["holds", drawHolds],
  ["window-edges", drawWindowEdges],
])("docs/pictures/%s.svg shows what the limiter answers", async (name, draw) => {
  await expect(draw()).toMatchFileSnapshot(`../../../../docs/pictures/${name}.svg`);
});
