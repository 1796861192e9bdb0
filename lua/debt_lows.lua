-- The lowest debts of a token bucket with holds, as src/engine/algorithms/debt-lows.ts keeps them, for holds.lua.
-- state     string of doubles: number of the last payment, number of the last payment that opened a hold, what all holds together can give
--           back, then per low the number of its payment and the debt before it
-- lifetime  same as the set of holds

local LOWS_MAX = 64

local function read_lows(place)
  local text, lows = saved[place], { place = place, last = 0, last_held = 0, held = 0, payments = {}, lows = {} }
  lows.was_there = text and #text >= 24 and #text % 8 == 0
  if not lows.was_there then return lows end
  lows.last, lows.last_held, lows.held = unpack_numbers('<ddd', text)
  for from = 25, #text - 8, 16 do
    local all = #lows.lows + 1
    lows.payments[all], lows.lows[all] = unpack_numbers('<dd', text, from)
  end
  return lows
end

local function drop_low(lows, i)
  table.remove(lows.payments, i)
  table.remove(lows.lows, i)
end

local function note_low(lows, debt)
  local all = lows.lows
  lows.last = lows.last + 1
  while #all > 0 and all[#all] >= debt do drop_low(lows, #all) end
  if (lows.payments[#all] or 0) > lows.last_held or debt >= lows.held then return end
  lows.payments[#all + 1] = lows.last
  all[#all + 1] = debt
  if #all <= LOWS_MAX then return end
  local nearest = 1
  for i = 2, #all - 1 do
    if all[i + 1] - all[i] < all[nearest + 1] - all[nearest] then nearest = i end
  end
  all[nearest + 1] = all[nearest]
  drop_low(lows, nearest)
end

local function first_low_after(lows, payment)
  local at = 1
  while at <= #lows.payments and lows.payments[at] <= payment do at = at + 1 end
  return at
end

local function take_off_lows(lows, payment, debt)
  local first, all = first_low_after(lows, payment), lows.lows
  lows.is_changed = true
  for i = first, #all do all[i] = max(0, all[i] - debt) end
  if first > #all then return end
  for i = first - 1, 1, -1 do
    if all[i] >= all[i + 1] then drop_low(lows, i) end
  end
end

local function write_lows(lows, lifetime_ms)
  local numbers = { lows.last, lows.last_held, lows.held }
  for i = 1, #lows.lows do numbers[i * 2 + 2], numbers[i * 2 + 3] = lows.payments[i], lows.lows[i] end
  call('SET', KEYS[lows.place], pack_numbers('<' .. rep('d', #numbers), unpack(numbers)), 'PX', format(ONE, lifetime_ms))
end
