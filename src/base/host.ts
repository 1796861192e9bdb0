// What the engine uses of Node.js beyond JavaScript and Buffer. A page that runs the engine in a browser (playground)
// provides `process.getBuiltinModule` with just these modules, so nothing is replaced when it is bundled.

const builtin = process.getBuiltinModule;

export const { createHash, randomBytes } = builtin("node:crypto");
export const { isUtf8 } = builtin("node:buffer");
export const { styleText } = builtin("node:util");
/** Resolves after the turn: pending I/O comes first. */
export const { setImmediate: nextTurn } = builtin("node:timers/promises");

const { createRequire } = builtin("node:module");

/** A package that only some rules need, loaded at once. */
export function loadPackage(name: "re2js" | "temporal-polyfill"): unknown {
  return createRequire(import.meta.url)(name);
}
