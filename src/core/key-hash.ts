// The hash of a bucket key: whoever makes a key makes it too, whoever keeps buckets finds them by it.

/** FNV-1a over the bytes of one-byte text, unsigned 32 bit. Reading every char also makes the string flat. */
export function hashBucketKey(bucketKey: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < bucketKey.length; i++) hash = Math.imul(hash ^ bucketKey.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}
