// Writes the names of package, image, chart and repository (names.json) where people copy them from: the README's Start, manifests, the
// chart. Publishing is one edit of names.json, then `node deploy/names.mjs`.

import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";

/**
 * @typedef {{ readonly published: boolean, readonly repository: string, readonly package: string, readonly client: string,
 *   readonly image: string, readonly chart: string }} Names
 */

const ROOT = resolve(import.meta.dirname, "..");
const IMAGES = [
  "deploy/compose/compose.yaml",
  "deploy/kubernetes/base/deployment.yaml",
  "deploy/kubernetes/verify/job.yaml",
  "deploy/envoy-ai-gateway/ratelimit.yaml",
  "deploy/envoy-gateway/redis.yaml",
  "deploy/envoy-gateway/memory.yaml",
  "deploy/envoy-gateway/postgres.yaml",
];

/** File -> what stands there, and what shall. @type {Readonly<Record<string, readonly [RegExp, (names: Names) => string]>>} */
export const PLACES = {
  ...Object.fromEntries(IMAGES.map((file) => [file, [/(?<=image: )[\w./:-]*headgate(?=:\d)/g, imageOf]])),
  "deploy/helm/headgate/values.yaml": [/(?<=^image:\n {2}repository: ).*/m, imageOf],
  "README.md": [/(?<=<!-- names: .* -->\n)[\s\S]*?(?=<!-- \/names -->)/, startOf],
};

/** @param {Names} names */
function imageOf({ image }) {
  return image;
}

/** @param {Names} names */
function startOf({ published, package: program, client, image, chart }) {
  if (!published) {
    return `Not published yet: every line below runs in a checkout, after \`npm ci\` (\`git clone\`, Node 20.19 or newer). \`headgate\` in the docs is
\`alias headgate='npx --no-install ${program}'\`.
`;
  }
  return `\`npx ${program} serve\`, \`docker run -p 8080:8080 -p 8081:8081 ${image}\` or \`helm install headgate ${chart}\` start it;
\`npm install ${client}\` adds the client to a service. The lines below run in a checkout (\`git clone\`, Node 20.19 or newer).
`;
}

/** The text with the names. @param {string} file @param {string} text @param {Names} names */
export function named(file, text, names) {
  const [place, words] = PLACES[file];
  if (text.match(place) === null) throw new Error(`${file}: expected a place for names, ${place}`);
  return text.replace(place, () => words(names));
}

if (process.argv[1] === import.meta.filename) {
  const names = JSON.parse(readFileSync(resolve(ROOT, "deploy/names.json"), "utf8"));
  for (const file of Object.keys(PLACES)) {
    const path = resolve(ROOT, file);
    writeFileSync(path, named(file, readFileSync(path, "utf8"), names));
  }
}
