// Runs work as a user whom the permissions of files bind. They don't bind root, as whom tests run in containers.

/** The user and group that own nothing, in every Linux. */
const NOBODY = 65_534;

/** Files that `work` opens have to be open to everybody; modules that it loads have to be loaded before. */
export async function boundByPermissions<T>(work: () => Promise<T>): Promise<T> {
  if (process.getuid?.() !== 0) return work();
  process.setegid?.(NOBODY);
  process.seteuid?.(NOBODY);
  try {
    return await work();
  } finally {
    process.seteuid?.(0);
    process.setegid?.(0);
  }
}
