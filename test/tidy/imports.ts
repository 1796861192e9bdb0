// Which file of a folder imports what. Imports of types count like any other.

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

export interface Import {
  /** Path in the folder. */
  readonly from: string;
  /** As it is written: a path from where the importing file lies, or a package. */
  readonly to: string;
}

/** The TypeScript files of a folder and of all below it, by their paths in there. */
export function filesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
}

/** All that one file of the folder imports or exports from elsewhere. */
export function importsOf(folder: string, file: string): Import[] {
  const text = readFileSync(join(folder, file), "utf8");
  const found = text.matchAll(/(?:^|\n)\s*(?:import|export)\s(?:[^;]*?\sfrom\s)?"([^"]+)"|import\("([^"]+)"\)/g);
  return [...found].map((match) => ({ from: file, to: match[1] ?? match[2] ?? "" }));
}

/** True if another file is imported, not a package. */
export function isOfFile({ to }: Import): boolean {
  return to.startsWith(".");
}

/** The path in the folder of the file that is imported. */
export function importedFile(folder: string, { from, to }: Import): string {
  return relative(folder, resolve(folder, dirname(from), to));
}
