-- Entry script: takes for a list of groups of one take each, each on a key of its own, which is most of all traffic. Does
-- what take_all.lua does, at a quarter of its cost, and takes the same arguments as long as every take pays or peeks, no
-- limit is a sliding log or a counter, and nothing is given back. So the algorithms stand here once more, without what
-- several takes of one bucket ask for; test/lua/take-each.test.ts holds both scripts equal.
-- KEYS, ARGV, reply, state, lifetime: as take_all.lua says; the groups name the keys in their order, the first ones at least.
-- All reads come before the first write.

local now_us, lifetime_extra_ms = read_clock(struct.unpack('<d', ARGV[1]))
local limits, groups, out = ARGV[2], ARGV[4], {}
local damaged = 0
local match, pack, unpack_numbers, tonumber = string.match, struct.pack, struct.unpack, tonumber

-- Each algorithm gets the state as saved (false: nothing) and a take, and returns outcome, wait, remaining, reset, time of
-- payment (0: none), the new state (false: the bucket is as new), and whether that is another than what is saved.

local function damage()
  damaged = damaged + 1
  return true
end

local function take_token_bucket(saved, pays, cost, amount, burst, tick_us)
  local debt, at_us, is_changed = 0, now_us, false
  if saved then
    local debt_text, at_text = match(saved, '^(%d+) (%d+)$')
    debt, at_us = whole(debt_text, EXACT_MAX), whole(at_text, EXACT_MAX)
    if not debt or not at_us then debt, at_us, is_changed = 0, now_us, damage() end
  end
  if at_us > now_us then
    if at_us - now_us > min(tick_us * TICKS, SKEW_US_MAX) then at_us, is_changed = now_us, true end
  else
    local ticks = floor((now_us - at_us) / tick_us)
    if amount > 0 and ticks >= ceil(debt / amount) then
      debt = 0
    else
      debt, at_us = debt - ticks * amount, at_us + ticks * tick_us
    end
  end
  local paid_off = now_us > at_us and refill_within_tick(now_us - at_us, amount, tick_us) or 0
  if debt <= paid_off then debt, at_us, paid_off = 0, max(at_us, now_us), 0 end

  local outcome, wait, paid_at_us, excess = OUTCOME_ROOM, 0, 0, debt + cost * TICKS - burst * TICKS
  if cost > burst then
    outcome = OUTCOME_NEVER
  elseif excess > paid_off then
    outcome, wait = OUTCOME_OVER, tick_us * TICKS
    if amount > 0 then
      wait = us_to_refill(excess, amount, tick_us)
      if wait < WAIT_US_MAX then wait = min(WAIT_US_MAX, wait + at_us - now_us) end
    end
  elseif pays then
    debt, paid_at_us, is_changed = debt + cost * TICKS, max(now_us, at_us), true
  end

  local reset_us = 0
  if debt > 0 then
    reset_us = tick_us * TICKS
    if amount > 0 then
      reset_us = us_to_refill(debt, amount, tick_us)
      if reset_us < WAIT_US_MAX then reset_us = min(WAIT_US_MAX, reset_us + at_us - now_us) end
    end
  end
  local remaining = max(0, floor((burst * TICKS - (debt - paid_off)) / TICKS))
  return outcome, wait, remaining, reset_us, paid_at_us, debt > 0 and digits(debt, at_us), is_changed
end

local function take_sliding_window(saved, pays, cost, amount, _, tick_us)
  local window_us = tick_us * TICKS
  local aligned_us = floor(now_us / window_us) * window_us
  local start_us, current, previous, is_changed = aligned_us, 0, 0, false
  if saved then
    local start_text, current_text, previous_text = match(saved, '^(%d+) (%d+) (%d+)$')
    start_us, current, previous = whole(start_text, EXACT_MAX), whole(current_text, AMOUNT_MAX), whole(previous_text, AMOUNT_MAX)
    if not start_us or not current or not previous or start_us % window_us ~= 0 then
      start_us, current, previous, is_changed = aligned_us, 0, 0, damage()
    end
  end
  if start_us > now_us then
    if start_us - now_us > min(window_us, SKEW_US_MAX) then start_us, is_changed = aligned_us, true end
  elseif start_us == aligned_us - window_us then
    start_us, current, previous = aligned_us, 0, current
  elseif start_us ~= aligned_us then
    start_us, current, previous = aligned_us, 0, 0
  end
  -- What the previous window still counts, in ticks of its share.
  local covered = previous * (TICKS - max(0, floor((now_us - start_us) / tick_us)))

  local outcome, wait, paid_at_us, room = OUTCOME_ROOM, 0, 0, amount - current - cost
  if cost > amount then
    outcome = OUTCOME_NEVER
  elseif covered > room * TICKS then
    local ticks
    if room >= 0 then
      ticks = TICKS - floor(room * TICKS / previous)
    else
      ticks = TICKS + max(0, TICKS - floor((amount - cost) * TICKS / current))
    end
    outcome, wait = OUTCOME_OVER, start_us + ticks * tick_us - now_us
  elseif pays then
    current, paid_at_us, is_changed = current + cost, max(now_us, start_us), true
  end

  local remaining = max(0, floor(((amount - current) * TICKS - covered) / TICKS))
  local is_counting = current > 0 or previous > 0
  local reset_us = is_counting and start_us + (current > 0 and 2 or 1) * window_us - now_us or 0
  return outcome, wait, remaining, reset_us, paid_at_us, is_counting and digits(start_us, current, previous), is_changed
end

local function take_fixed_window(saved, pays, cost, amount, _, tick_us)
  local window_us = tick_us * TICKS
  local aligned_us = floor(now_us / window_us) * window_us
  local start_us, current, is_changed = aligned_us, 0, false
  if saved then
    local start_text, current_text = match(saved, '^(%d+) (%d+)$')
    start_us, current = whole(start_text, EXACT_MAX), whole(current_text, AMOUNT_MAX)
    if not start_us or not current or start_us % window_us ~= 0 then
      start_us, current, is_changed = aligned_us, 0, damage()
    end
  end
  if start_us > now_us then
    if start_us - now_us > min(window_us, SKEW_US_MAX) then start_us, is_changed = aligned_us, true end
  elseif start_us ~= aligned_us then
    start_us, current = aligned_us, 0
  end

  local outcome, wait, paid_at_us = OUTCOME_ROOM, 0, 0
  if cost > amount then
    outcome = OUTCOME_NEVER
  elseif current + cost > amount then
    outcome, wait = OUTCOME_OVER, start_us + window_us - now_us
  elseif pays then
    current, paid_at_us, is_changed = current + cost, max(now_us, start_us), true
  end

  local is_counting = current > 0
  local reset_us = is_counting and start_us + window_us - now_us or 0
  return outcome, wait, max(0, amount - current), reset_us, paid_at_us, is_counting and digits(start_us, current), is_changed
end

local function take_calendar_window(saved, pays, cost, amount, first_us, last_us, next_us)
  local own_end_us = last_us
  if now_us < first_us or now_us >= last_us then own_end_us = calendar_end_us(now_us, first_us, last_us, next_us) end
  local start_us, current, end_us, is_changed = now_us, 0, own_end_us, false
  local start_text, current_text, seconds_text
  if saved then
    start_text, current_text, seconds_text = match(saved, '^(%d+) (%d+) (%d+)$')
    local seconds
    if start_text then start_us, current, seconds = tonumber(start_text), tonumber(current_text), tonumber(seconds_text) end
    if not start_text or start_us > EXACT_MAX or current > AMOUNT_MAX or seconds > AMOUNT_MAX then
      start_us, current, seconds_text, is_changed = now_us, 0, nil, damage()
    else
      end_us = (floor(start_us / TICKS) + seconds) * TICKS
      if current == 0 or now_us >= end_us then
        start_us, current, seconds_text, end_us = now_us, 0, nil, own_end_us
      elseif start_us - now_us > SKEW_US_MAX or end_us - own_end_us > EDGE_SKEW_US_MAX then
        start_us, seconds_text, end_us, is_changed = now_us, nil, own_end_us, true
      end
    end
  end

  local outcome, wait, paid_at_us = OUTCOME_ROOM, 0, 0
  if cost > amount then
    outcome = OUTCOME_NEVER
  elseif current + cost > amount then
    outcome, wait = OUTCOME_OVER, end_us - now_us
  elseif pays then
    current, paid_at_us, is_changed = current + cost, max(now_us, start_us), true
  end

  local remaining = max(0, amount - current)
  if current == 0 then return outcome, wait, remaining, 0, paid_at_us, false, is_changed end
  local text
  if seconds_text then
    -- In a window that goes on only the count is new: writing numbers is the dearest part of a take.
    text = start_text .. ' ' .. digits(current) .. ' ' .. seconds_text
  else
    text = digits(start_us, current, end_us / TICKS - floor(start_us / TICKS))
  end
  return outcome, wait, remaining, end_us - now_us, paid_at_us, text, is_changed
end

local TAKES = { [0] = take_token_bucket, [1] = take_sliding_window, [2] = take_fixed_window, [5] = take_calendar_window }

-- A key that holds no string reads as nothing here and is found out when it is written.
local texts = redis.call('MGET', unpack(KEYS))

for at = 1, #groups / 72 do
  local _, latest_us, flags, _, limit, _, kind, mode, cost = unpack_numbers('<ddddddddd', groups, at * 72 - 71)
  if latest_us > 0 and now_us > latest_us then
    out[at] = pack('<d', VERDICT_TOO_LATE)
  else
    local algorithm, amount, burst, seconds, last = unpack_numbers('<ddddd', limits, limit * 40 - 39)
    local key, saved = KEYS[at], texts[at]
    local outcome, wait, remaining, reset_us, paid_at_us, text, is_changed =
      TAKES[algorithm](saved, mode == MODE_PAY, cost, amount, burst, seconds, last)
    local is_refused = outcome ~= OUTCOME_ROOM and (kind == KIND_ORDINARY or (kind == KIND_QUOTA and flags == 0))
    local status = paid_at_us > 0 and outcome + 4 or outcome
    out[at] = pack('<ddddddd', is_refused and VERDICT_REFUSED or VERDICT_ALLOWED, status, remaining, wait, reset_us, paid_at_us, 0)
    if is_changed or not saved then
      if not write_string(key, saved, text, reset_us, lifetime_extra_ms) then damaged = damaged + 1 end
    elseif algorithm == 0 then
      keep_longer(key, reset_us, lifetime_extra_ms)
    end
  end
end

return pack('<dd', now_us, damaged) .. table.concat(out)
