// Makes the process start sooner and stay smaller. main.ts imports this file before all others: the compile cache is
// for what is loaded after it.

import module from "node:module";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";

// Compiled code is kept next to the program, where only those can write who could change the program, unlike in a
// folder for temporary files. Nothing is kept where the process can't write, unless the image filled the folder.
// Node.js 20 has no such cache.
const { enableCompileCache } = module as { readonly enableCompileCache?: (folder: string) => unknown };
if (process.env.NODE_COMPILE_CACHE === undefined) {
  enableCompileCache?.(fileURLToPath(new URL("../../.cache/compile", import.meta.url)));
}

const hasMaglev = Number(process.versions.node.split(".")[0]) >= 22;
/** The operator's own options win; also, --jitless with a compiler would end the process. */
const isDecided = /jitless|lite.mode|maglev|semi.space|single.generation/.test(
  [...process.execArgv, process.env.NODE_OPTIONS].join(" "),
);

/** V8 flags during the start, and their usual values after it. An idle process never gives this memory back. */
const FLAGS = [
  // What a start allocates once would let the young generation grow to 64 MB.
  { atStart: "--semi-space-growth-factor=1", after: "--semi-space-growth-factor=2" },
  // The compiler between the interpreter and the optimizing one takes 20 MB for the code that warms up. Node.js 20 does
  // not use it.
  ...(hasMaglev ? [{ atStart: "--no-maglev", after: "--maglev" }] : []),
];

/** Makes V8 use less memory until the returned function is called. */
export function startSmall(): () => void {
  if (isDecided) return () => undefined;
  for (const { atStart } of FLAGS) setFlagsFromString(atStart);
  return () => {
    for (const { after } of FLAGS) setFlagsFromString(after);
  };
}
