// Loads a module of the built service, so that the bench measures what is shipped.

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const DIST = resolve(process.env.HEADGATE_DIST ?? resolve(import.meta.dirname, "../../dist"));

/** A module of dist/, by its path in there. HEADGATE_DIST names another build to compare with. */
export function loadDist(path) {
  return import(pathToFileURL(resolve(DIST, path)).href);
}
