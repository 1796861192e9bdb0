// Makes the process start sooner and stay smaller. main.ts imports this file before all others: the compile cache is for what is loaded
// after it.

import module from "node:module";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";

// Compiled code is kept next to the program: whoever can write there can change the program itself, which is not so of a folder for temporary
// files. Where the process can't write, and no image has filled the folder, nothing is kept. Node.js 20 has no such cache.
const { enableCompileCache } = module as { readonly enableCompileCache?: (folder: string) => unknown };
if (process.env.NODE_COMPILE_CACHE === undefined) {
  enableCompileCache?.(fileURLToPath(new URL("../../.cache/compile", import.meta.url)));
}

const hasMaglev = Number(process.versions.node.split(".")[0]) >= 22;
/** Whoever gives such options has decided, and --jitless with a compiler would end the process. */
const isDecided = /jitless|lite.mode|maglev|semi.space|single.generation/.test(
  [...process.execArgv, process.env.NODE_OPTIONS].join(" "),
);

/** What V8 does while the process starts, and as ever after it. An idle process gives none of this memory back. */
const FLAGS = [
  // What a start allocates once would let the young generation grow to 64 MB.
  { atStart: "--semi-space-growth-factor=1", after: "--semi-space-growth-factor=2" },
  // The compiler between the interpreter and the optimizing one takes 20 MB for the code that warms up. Node.js 20 does not use it.
  ...(hasMaglev ? [{ atStart: "--no-maglev", after: "--maglev" }] : []),
];

/** Has V8 spend less memory, until the function returned is called. */
export function startSmall(): () => void {
  if (isDecided) return () => undefined;
  for (const { atStart } of FLAGS) setFlagsFromString(atStart);
  return () => {
    for (const { after } of FLAGS) setFlagsFromString(after);
  };
}
