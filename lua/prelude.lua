-- Prelude: constants and names of the scripts. scripts.ts replaces the names of constants (`local NAME = 1`) by their numbers.
-- All numbers are whole and stay below 2^53, where doubles are exact. Times are microseconds of the server's clock.
-- Never use `tostring` or `..` on a number: both write 14 digits, but a time has 16. The formats below write all.
-- Arguments, reply and buckets are numbers as little-endian doubles, which take a fifth of the time of decimal text. Commands of Redis,
-- holds and counters need text.

-- Numbers shared with src/engine/domain/take.ts and limit.ts.
local TOKEN_BUCKET, SLIDING_WINDOW, FIXED_WINDOW, SLIDING_LOG, CALENDAR_WINDOW = 0, 1, 2, 3, 5
local KIND_ORDINARY, KIND_QUOTA = 0, 1
local MODE_PAY, MODE_PEEK, MODE_REFUND, MODE_POST_PAID, MODE_SETTLE = 0, 1, 2, 3, 5
local MODE_GIVE_BACK, MODE_TAKE_OFF, MODE_ADVANCE = 6, 7, 8 -- the first is a receipt's, the others are asked by holds.lua alone
local OUTCOME_ROOM, OUTCOME_OVER, OUTCOME_NEVER = 1, 2, 3
local VERDICT_ALLOWED, VERDICT_REFUSED, VERDICT_TOO_LATE, VERDICT_NO_COUNT, VERDICT_HOLDS_FULL = 1, 2, 3, 4, 6
local STATUS_PAID, STATUS_OPENED = 4, 8 -- added to a take's outcome

local TICKS = 1000000 -- ticks per window; also millionths per token
local AMOUNT_MAX = 4294967295
local EXACT_MAX = 9007199254740991
local SKEW_US_MAX = 10000000 -- a state dated later than now by more than this is moved to now
local EDGE_SKEW_US_MAX = 93600000000 -- 26 hours; an end of a calendar window later than the caller's by more is replaced by the caller's
local WAIT_US_MAX = 315360000000000 -- ten years; bounds waits and lifetimes, so that PX stays within Redis's range

local call, tonumber = redis.call, tonumber
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local match, format, rep = string.match, string.format, string.rep
local pack_numbers, unpack_numbers = struct.pack, struct.unpack

-- `%d` is quicker than `%.0f`, but a C long of 32 bits can't hold a time.
local IS_LONG = format('%d', EXACT_MAX) == '9007199254740991'
local ONE = IS_LONG and '%d' or '%.0f'
local THREE = IS_LONG and '%d %d %d' or '%.0f %.0f %.0f'
