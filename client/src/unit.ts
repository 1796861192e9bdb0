// The windows that have a name, and the protocol's numbers for them.

/** A window that has a name. */
export type Unit = "second" | "minute" | "hour" | "day" | "week" | "month" | "year";

/** The protocol's numbers, in requests and in answers. */
export const UNIT_NUMBERS: Readonly<Record<Unit, number>> = {
  second: 1,
  minute: 2,
  hour: 3,
  day: 4,
  month: 5,
  year: 6,
  week: 7,
};

/** Undefined for a number that stands for no window with a name. */
export function unitOf(number: number): Unit | undefined {
  return (Object.keys(UNIT_NUMBERS) as Unit[]).find((unit) => UNIT_NUMBERS[unit] === number);
}
