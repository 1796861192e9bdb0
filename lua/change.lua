-- Does to an open bucket what plain takes don't: pays without room (MODE_POST_PAID), gives back (MODE_REFUND, MODE_GIVE_BACK,
-- MODE_TAKE_OFF), moves to a time (MODE_ADVANCE). Returns the hits that were not recorded. take.lua makes the function when a call first
-- needs it.
function change(slot, limit, mode, cost, paid_at_us, now_us)
  local algorithm, amount, burst, seconds, debt_max = unpack_numbers('<ddddd', limits, limit * 40 - 39)
  local used, at_us, rest, is_redated, capped = working[slot + USED], working[slot + AT_US], working[slot + REST], false, 0
  if mode == MODE_ADVANCE then
    -- EACH advance
  elseif mode == MODE_POST_PAID then
    -- Up to the largest debt, or AMOUNT_MAX in a window. A larger debt (after an edit) stays.
    local unit, most = 1, AMOUNT_MAX
    if algorithm == TOKEN_BUCKET then unit, most = TICKS, debt_max * TICKS + rest end
    if used > most then
      capped = cost
    else
      local excess = max(0, used + cost * unit - most)
      used, capped = used + cost * unit - excess, ceil(excess / unit)
    end
  else
    -- EACH give_back
  end
  working[slot + USED], working[slot + AT_US], working[slot + REST] = used, at_us, rest
  return capped
end
