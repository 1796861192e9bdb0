-- The lowest debts of a token bucket with holds, as src/engine/algorithms/debt-lows.ts keeps them.
-- state     string of doubles: number of the last payment, number of the last payment that opened a hold, what all
--           holds together can give back, then per low the number of its payment and the debt before it
-- lifetime  same as the set of holds

local function debt_lows()
  local LOWS_MAX = 64

  local function drop(lows, i)
    table.remove(lows.payments, i)
    table.remove(lows.debts, i)
  end

  local function first_after(lows, payment)
    local at = 1
    while at <= #lows.payments and lows.payments[at] <= payment do at = at + 1 end
    return at
  end

  return {
    read = function(text)
      local lows = { last = 0, last_held = 0, held = 0, payments = {}, debts = {}, is_changed = false }
      lows.was_there = text and #text >= 24 and #text % 8 == 0
      if not lows.was_there then return lows end
      lows.last, lows.last_held, lows.held = unpack_numbers('<ddd', text)
      for from = 25, #text - 8, 16 do
        local all = #lows.debts + 1
        lows.payments[all], lows.debts[all] = unpack_numbers('<dd', text, from)
      end
      return lows
    end,

    -- Must be called before every payment, with the debt at that moment.
    note_payment = function(lows, debt)
      local payments, debts = lows.payments, lows.debts
      lows.last = lows.last + 1
      while #debts > 0 and debts[#debts] >= debt do drop(lows, #debts) end
      if (payments[#debts] or 0) > lows.last_held or debt >= lows.held then return end
      payments[#debts + 1], debts[#debts + 1] = lows.last, debt
      if #debts <= LOWS_MAX then return end
      local nearest = 1
      for i = 2, #debts - 1 do
        if debts[i + 1] - debts[i] < debts[nearest + 1] - debts[nearest] then nearest = i end
      end
      debts[nearest + 1] = debts[nearest]
      drop(lows, nearest)
    end,

    -- The lowest debt since that payment; nil if it bounds nothing.
    since = function(lows, payment)
      return lows.debts[first_after(lows, payment)]
    end,

    -- `debt` of that payment is given back: all lows since then become lower by it.
    take_off = function(lows, payment, debt)
      local first, debts = first_after(lows, payment), lows.debts
      lows.is_changed = true
      for i = first, #debts do debts[i] = max(0, debts[i] - debt) end
      if first > #debts then return end
      for i = first - 1, 1, -1 do
        if debts[i] >= debts[i + 1] then drop(lows, i) end
      end
    end,

    write = function(lows)
      local numbers = { lows.last, lows.last_held, lows.held }
      for i, debt in ipairs(lows.debts) do numbers[i * 2 + 2], numbers[i * 2 + 3] = lows.payments[i], debt end
      return pack_numbers('<' .. rep('d', #numbers), unpack(numbers))
    end,
  }
end
