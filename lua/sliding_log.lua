-- Sliding log: keeps every payment of the last window with its time, so that the limit holds in any rolling window.
-- state     list: the total of all entries, then the entries "at_us cost", oldest first
-- lifetime  until the newest entry is a window old
-- Up to LOG_FINE_MAX entries, each payment has an entry of its own. Beyond, payments of one granule of the window share an entry, dated
-- as the last of them. So a take reads a bounded number of entries: expired ones once, and those that must expire before its cost fits.
-- What a call pays stays in `pending` until it is saved, so undoing it is exact.
local sliding_log = {}

local LOG_FINE_MAX, LOG_GRANULES = 128, 128
local HEAD_ENTRIES, CHUNK_MAX = 16, 512

local function is_one_granule(one_us, other_us, limit)
  local granule_us = ceil(limit.window_us / LOG_GRANULES)
  return floor(one_us / granule_us) == floor(other_us / granule_us)
end

-- Reads the entries `from` to `to`. The oldest entry is 1, its index in the list, because element 0 is the total.
local function log_read(state, from, to)
  local texts = redis.pcall('LRANGE', state.key, digits(from), digits(to))
  for i = from, to do state.texts[i] = texts[i - from + 1] or '' end
end

-- Time of entry `i`. If it is not read yet, reads a chunk towards the newest (`step` 1) or the oldest entry (-1). Damaged entries mark
-- the log as broken.
local function log_time(state, i, step)
  if not state.at[i] then
    if not state.texts[i] then
      local last = i + step * (state.chunk - 1)
      log_read(state, step > 0 and i or max(state.first, last), step > 0 and min(state.stored, last) or i)
      state.chunk = min(CHUNK_MAX, state.chunk * 2)
    end
    local at_text, cost_text = string.match(state.texts[i], '^(%d+) (%d+)$')
    local at_us, cost = whole(at_text, EXACT_MAX), whole(cost_text, AMOUNT_MAX)
    if not at_us or not cost then
      state.is_broken = true
      at_us, cost = 0, 0
    end
    state.at[i], state.cost[i] = at_us, cost
  end
  return min(state.at[i], state.effective_us)
end

-- Whether `pending` joins the newest entry: it has the same time, or, from LOG_FINE_MAX entries on, the same granule.
local function log_merges(state)
  if state.first > state.count then return false end
  local newest_us = log_time(state, state.count, -1)
  if newest_us == state.effective_us then return true end
  return state.count - state.first + 1 >= LOG_FINE_MAX and is_one_granule(newest_us, state.effective_us, state.limit)
end

-- Dates entries that are later than `effective_us` at `effective_us`, and makes `pending` an entry.
local function log_commit(state)
  for i = state.count, state.first, -1 do
    local at_us = log_time(state, i, -1)
    if state.at[i] == at_us then break end
    state.at[i] = at_us
    state.kept = min(state.kept, i - 1)
  end
  if state.pending == 0 then return end
  if log_merges(state) then
    state.at[state.count] = state.effective_us
    state.cost[state.count] = state.cost[state.count] + state.pending
    state.kept = min(state.kept, state.count - 1)
  else
    state.count = state.count + 1
    state.at[state.count], state.cost[state.count] = state.effective_us, state.pending
  end
  state.total = state.total + state.pending
  state.pending = 0
end

function sliding_log.new(key, limit, now_us)
  -- Entries `first` to `count` are valid; those up to `kept` are unchanged in the list.
  return {
    key = key, texts = {}, at = {}, cost = {}, first = 1, count = 0, kept = 0, stored = 0, total = 0, pending = 0,
    noted_total = 0, effective_us = now_us, chunk = 1, is_changed = false, limit = limit, lifetime_us = 0, group_at = 0,
  }
end

-- The state under `key`, advanced to now. Nil if it is no list, or if the entries that were read are damaged.
function sliding_log.open(key, limit, now_us)
  local state = sliding_log.new(key, limit, now_us)
  local head = redis.pcall('LRANGE', key, '0', digits(HEAD_ENTRIES))
  if head.err then return nil end
  if #head == 0 then return state end
  state.count = #head <= HEAD_ENTRIES and #head - 1 or redis.call('LLEN', key) - 1
  state.kept, state.stored, state.total = state.count, state.count, whole(string.match(head[1], '^%d+$'), AMOUNT_MAX)
  if not state.total or state.count < 1 then return nil end
  for i = 1, #head - 1 do state.texts[i] = head[i + 1] end

  state.effective_us = EXACT_MAX
  local newest_us = log_time(state, state.count, -1)
  state.is_changed = newest_us > now_us + limit.skew_us
  state.effective_us = state.is_changed and now_us or max(now_us, newest_us)
  local oldest_us = state.effective_us - limit.window_us
  while state.first <= state.count and log_time(state, state.first, 1) <= oldest_us do
    state.total = state.total - state.cost[state.first]
    state.first = state.first + 1
  end
  if state.is_broken or state.total < 0 then return nil end
  if state.first > state.count and state.total > 0 then return nil end
  state.noted_total = state.total
  return state
end

-- Reuses a state that a group changed in another group, as if it had been saved and read again: it is judged at the time of the newest
-- remaining entry, if that is later than now.
function sliding_log.reopen(state, _, now_us)
  if not state.is_changed then return end
  log_commit(state)
  if state.first <= state.count then state.effective_us = max(now_us, log_time(state, state.count, -1)) end
end

function sliding_log.judge(state, limit, cost, now_us)
  if cost > limit.amount then return OUTCOME_NEVER, 0 end
  local excess = state.total + state.pending + cost - limit.amount
  if excess <= 0 then return OUTCOME_ROOM, 0 end
  local i, frees_us = state.first, state.effective_us
  while i <= state.count do
    local at_us = log_time(state, i, 1)
    excess = excess - state.cost[i]
    if excess <= 0 then
      local is_moved = i == state.count and state.pending > 0 and log_merges(state)
      frees_us = is_moved and state.effective_us or at_us
      break
    end
    i = i + 1
  end
  return OUTCOME_OVER, frees_us + limit.window_us - now_us
end

function sliding_log.pay(state, cost)
  state.pending = state.pending + cost
end

function sliding_log.undo(state, cost)
  state.pending = state.pending - cost
end

-- Counts beyond the limit, up to AMOUNT_MAX in total; returns the hits that were not counted.
function sliding_log.post_pay(state, _, cost)
  local kept = min(cost, AMOUNT_MAX - state.total - state.pending)
  state.pending = state.pending + kept
  return cost - kept
end

-- Takes up to `cost` off, newest entries first.
function sliding_log.refund(state, _, cost)
  log_commit(state)
  local left = cost
  while left > 0 and state.count >= state.first do
    local i = state.count
    log_time(state, i, -1)
    local off = min(left, state.cost[i])
    state.cost[i] = state.cost[i] - off
    state.total = state.total - off
    left = left - off
    if state.cost[i] == 0 then
      state.count = i - 1
    end
    state.kept = min(state.kept, i - 1)
  end
end

-- Takes up to `cost` off the newest entry of that time, or else off the next later one in its granule, which a payment of that time may
-- share with later payments.
function sliding_log.give_back(state, limit, cost, paid_at_us)
  log_commit(state)
  local i = state.count
  while i >= state.first and log_time(state, i, -1) > paid_at_us do i = i - 1 end
  if i < state.first or log_time(state, i, -1) ~= paid_at_us then i = i + 1 end
  if i > state.count or not is_one_granule(log_time(state, i, -1), paid_at_us, limit) then return end
  local off = min(cost, state.cost[i])
  state.cost[i] = state.cost[i] - off
  state.total = state.total - off
  if state.cost[i] == 0 then
    for later = i, state.count do
      state.at[later], state.cost[later] = state.at[later + 1], state.cost[later + 1]
    end
    state.count = state.count - 1
  end
  state.kept = min(state.kept, i - 1)
end

function sliding_log.paid_at_us(state)
  return state.effective_us
end

function sliding_log.remaining(state, limit)
  return max(0, limit.amount - state.total - state.pending)
end

function sliding_log.reset_us(state, limit, now_us)
  if state.total + state.pending == 0 then return 0 end
  local newest_us = state.pending > 0 and state.effective_us or log_time(state, state.count, -1)
  return newest_us + limit.window_us - now_us
end

-- Marks the state as changed if its total differs from the last note.
function sliding_log.note(state)
  local total = state.total + state.pending
  if total == state.noted_total then return end
  state.noted_total, state.is_changed = total, true
end

function sliding_log.is_as_new(state)
  return state.total + state.pending == 0
end

-- Writes the changes: drops expired entries at the front, and writes the entries after `kept` again.
function sliding_log.write(state)
  log_commit(state)
  local dropped = state.first - 1
  local kept = max(dropped, min(state.kept, state.count))
  local total = digits(state.total)
  if state.stored == 0 then
    redis.call('RPUSH', state.key, total)
  else
    -- The last dropped entry becomes element 0, which the total overwrites.
    if dropped > 0 or kept < state.stored then redis.call('LTRIM', state.key, digits(dropped), digits(kept)) end
    redis.call('LSET', state.key, '0', total)
  end
  local added = {}
  for i = kept + 1, state.count do
    added[#added + 1] = digits(state.at[i], state.cost[i])
    if #added == CHUNK_MAX or i == state.count then
      redis.call('RPUSH', state.key, unpack(added))
      added = {}
    end
  end
end

return sliding_log
