// The exports of "@headgate/client".

export { type AddressOptions, addressOf } from "./address-of.ts";
export type { CheckDecision, Degraded, DescriptorStatus, ShownLimit } from "./decision.ts";
export { CheckFailure, type OnFailure } from "./failure.ts";
export { createLimiter, type Limiter } from "./limiter.ts";
export {
  type Describe,
  expressLimit,
  fastifyLimit,
  httpLimit,
  limitHeaders,
  type ReplyLike,
  type RequestLike,
  type ResponseLike,
  type RoutedRequestLike,
} from "./middleware.ts";
export type { LimiterOptions, TlsOptions } from "./options.ts";
export { pathOf } from "./path-of.ts";
export type {
  Algorithm,
  CheckRequest,
  DescriptorInput,
  Entries,
  EntryValue,
  FullDescriptor,
  Override,
  WaitRequest,
} from "./request.ts";
export type { Reservation, ReserveAnswer, ReserveRequest, Settlement } from "./reservation.ts";
export { WaitRefused } from "./turns.ts";
export type { Unit } from "./unit.ts";
