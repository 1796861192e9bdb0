-- Prelude: constants and names, which all scripts begin with. All numbers are whole and stay below 2^53, where doubles
-- are exact. Times are microseconds of the server's clock.
-- Never use `tostring` or `..` on a number: both write 14 digits, but a time has 16. ONE writes all.
-- Arguments, reply and buckets are numbers as little-endian doubles, which take a fifth of the time of decimal text.
-- Commands of Redis, holds and counters need text.
-- Redis makes a script's functions in each call (docs/decisions/0035-functions-in-lua.md). So each other file is a
-- function that makes and returns its own, which take.lua calls where a call needs it. Lua looks for the variables of a
-- new function from the last one declared on, so what many functions use comes last.

local call, tonumber = redis.call, tonumber
local format, rep = string.format, string.rep
local unpack_numbers, pack_numbers = struct.unpack, struct.pack
local ceil, max, min, floor = math.ceil, math.max, math.min, math.floor

-- `%d` is quicker than `%.0f`, but a C long of 32 bits can't hold a time.
local EXACT_MAX = 9007199254740991
local IS_LONG = format('%d', EXACT_MAX) == '9007199254740991'
local ONE = IS_LONG and '%d' or '%.0f'

-- Numbers shared with src/engine/domain/take.ts and limit.ts.
local SLIDING_WINDOW, FIXED_WINDOW, SLIDING_LOG, CALENDAR_WINDOW, TOKEN_BUCKET = 1, 2, 3, 5, 0
local WAIT_US_MAX = 315360000000000 -- ten years; bounds waits and lifetimes, so that PX stays within Redis's range
local SKEW_US_MAX = 10000000 -- a state dated later than now by more than this is moved to now
local AMOUNT_MAX = 4294967295
local TICKS = 1000000 -- ticks per window; also millionths per token
local OUTCOME_OVER, OUTCOME_NEVER, OUTCOME_ROOM = 2, 3, 1
local STATUS_OPENED, STATUS_PAID = 8, 4 -- added to a take's outcome
local KIND_ORDINARY, KIND_QUOTA = 0, 1
local MODE_PAY, MODE_PEEK, MODE_REFUND, MODE_POST_PAID, MODE_SETTLE, MODE_GIVE_BACK, MODE_GUARANTEE = 0, 1, 2, 3, 5, 6, 8
local VERDICT_TOO_LATE, VERDICT_NO_COUNT, VERDICT_ALLOWED, VERDICT_REFUSED, VERDICT_HOLDS_FULL = 3, 4, 1, 2, 6

-- Bytes of a group's head, of a take and of a limit in the arguments; numbers of a take, there and in the reply.
local HEAD_BYTES, LIMIT_BYTES, TAKE_BYTES, TAKE_NUMBERS = 24, 40, 48, 6
