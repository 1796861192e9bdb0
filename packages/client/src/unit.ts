// The windows with names, and their numbers in the protocol, in requests and in answers.

/** In the order of the protocol's numbers, from 1 on. */
export const UNITS = ["second", "minute", "hour", "day", "month", "year", "week"] as const;

/** A window with a name. */
export type Unit = (typeof UNITS)[number];
