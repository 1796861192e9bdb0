// Builds the playground into a folder that any file server can serve (playground/dist), and serves it: `npm run playground`.

import { copyFileSync } from "node:fs";
import { resolve } from "node:path";
import { build, preview } from "vite";

const HERE = import.meta.dirname;
const OUT = resolve(HERE, "dist");

/** @param {string} outDir */
export async function buildPlayground(outDir) {
  await build({
    configFile: false,
    root: HERE,
    base: "./",
    logLevel: "error",
    // The page alone decides what is public.
    publicDir: false,
    build: {
      outDir,
      emptyOutDir: true,
      target: "es2023",
      modulePreload: false,
      // CSS by its own file, as the page's policy wants it.
      assetsInlineLimit: 0,
      rolldownOptions: {
        input: { playground: resolve(HERE, "index.html"), engine: resolve(HERE, "engine.ts") },
        preserveEntrySignatures: "strict",
        output: { entryFileNames: "[name].js", chunkFileNames: "[name].js", assetFileNames: "[name][extname]" },
      },
    },
  });
  copyFileSync(resolve(HERE, "../page/icon.svg"), resolve(outDir, "icon.svg"));
}

if (process.argv[1] === import.meta.filename) {
  await buildPlayground(OUT);
  const server = await preview({ configFile: false, root: HERE, build: { outDir: OUT }, logLevel: "error" });
  console.log(`playground ${server.resolvedUrls?.local[0]}`);
}
