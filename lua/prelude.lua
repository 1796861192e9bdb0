-- Prelude: what all scripts share. scripts.ts puts it in front of them, and writes constants (`local NAME = 1`) out where they are used.
-- All numbers are whole and stay below 2^53, where doubles are exact. Times are microseconds of the server's clock.
-- Never `tostring` or `..` a number: both keep 14 digits and a time has 16. `digits` keeps them all.
-- Arguments and reply hold numbers as doubles, least significant byte first: a tenth of the work that digits are. State is
-- text, which people can read.

-- Words of the protocol with src/core/take.ts.
local KIND_ORDINARY, KIND_QUOTA = 0, 1
local MODE_PAY, MODE_PEEK, MODE_REFUND, MODE_POST_PAID, MODE_CHARGE, MODE_DENIED, MODE_SETTLE = 0, 1, 2, 3, 4, 5, 6
local OUTCOME_ROOM, OUTCOME_OVER, OUTCOME_NEVER = 1, 2, 3
local VERDICT_ALLOWED, VERDICT_REFUSED, VERDICT_TOO_LATE, VERDICT_NO_COUNT, VERDICT_HOLDS_FULL = 1, 2, 3, 4, 6

local TICKS = 1000000 -- in one window; as millionths, also in one token
local AMOUNT_MAX = 4294967295
local EXACT_MAX = 9007199254740991
local SKEW_US_MAX = 10000000 -- state dated later than now by more than this is taken as dated now
local EDGE_SKEW_US_MAX = 93600000000 -- an end of a calendar window later than the caller's by more than 26 hours is not believed
local WAIT_US_MAX = 315360000000000 -- ten years; no wait is told as longer and no key lives longer, which keeps PX within what Redis accepts

local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

-- Where the C library's long is too short for a time, the slower format has to do.
local IS_LONG = string.format('%d', EXACT_MAX) == '9007199254740991'
local ONE, TWO = IS_LONG and '%d' or '%.0f', IS_LONG and '%d %d' or '%.0f %.0f'
local THREE = IS_LONG and '%d %d %d' or '%.0f %.0f %.0f'
