// What a state is, as text: all fields of the objects that the explored code keeps, private ones included.

/** Fields that say nothing of what happens later: tools, and what is reused. */
const SKIPPED = new Set([
  "clock",
  "$clock",
  "$store",
  "$processCount",
  "$idle",
  "$returned",
  "$read",
  "$lastValues",
  "limit",
  "stats",
  "policy",
]);

/** Text of a value; `relative` writes a number as what matters of it, such as a time as its distance from now. */
export function stateText(value: unknown, relative: (number: number) => number | string = (number) => number): string {
  return JSON.stringify(value, (key, each: unknown) => {
    if (SKIPPED.has(key)) return undefined;
    if (typeof each === "number") return relative(each);
    if (each instanceof Map) return [...each].map(([name, one]) => ({ name, one }));
    if (each instanceof Set) return [...each];
    if (typeof each === "object" && each !== null && !Array.isArray(each)) return { ...each };
    return each;
  });
}
