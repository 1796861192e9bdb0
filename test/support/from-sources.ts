// For Vitest's configurations: packages of the repository are tested as they are written, not as they were built last.

/** Takes what package.json names for the condition "headgate-source" where there is such a thing, and all else as Vitest does. */
export const FROM_SOURCES = {
  resolve: { conditions: ["headgate-source", "node", "development|production"] },
};
