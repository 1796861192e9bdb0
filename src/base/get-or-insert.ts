// Maps that are filled as they are asked. Not for the hot path: every call makes a closure.

/** The value under the key. If there is none, inserts what `make` returns. */
export function getOrInsert<Key, Value>(
  map: { get(key: Key): Value | undefined; set(key: Key, value: Value): unknown },
  key: Key,
  make: () => Value,
): Value {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}
