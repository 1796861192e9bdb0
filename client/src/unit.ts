// The windows with names, and their numbers in the protocol.

/** A window with a name. */
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

/** The unit with this number; undefined if there is none. */
export function unitOf(number: number): Unit | undefined {
  return (Object.keys(UNIT_NUMBERS) as Unit[]).find((unit) => UNIT_NUMBERS[unit] === number);
}
