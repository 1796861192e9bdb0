// What a Redis primary says of its replicas, in its reply to ROLE. WAIT can't tell whether they have what others wrote: it speaks of
// what its own connection wrote, which is nothing here, and so counts replicas that are still copying.

/** How much the primary has written, as an offset; undefined if this is no primary's reply. */
export function writtenIn(role: unknown): number | undefined {
  return Array.isArray(role) && role[0] === "master" ? Number(role[1]) : undefined;
}

/** How many of its replicas have acknowledged that much. They say once a second what they have. */
export function replicasWith(role: unknown, written: number): number {
  if (writtenIn(role) === undefined) return 0;
  const [, , replicas] = role as readonly [string, number, readonly (readonly [string, string, string])[]];
  return replicas.filter(([, , acknowledged]) => Number(acknowledged) >= written).length;
}
