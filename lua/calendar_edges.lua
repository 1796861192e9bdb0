-- Where windows of a calendar end. The function shares no local with anybody: each call of a script would pay for it.

-- End of the window of a calendar that holds `at_us`, by the edges that the caller handed over. Beyond them windows are as long
-- as the nearest.
local function calendar_end_us(at_us, start_us, end_us, next_end_us)
  if at_us < start_us then return start_us - math.floor((start_us - 1 - at_us) / (end_us - start_us)) * (end_us - start_us) end
  if at_us < end_us then return end_us end
  return next_end_us + (math.floor((at_us - next_end_us) / (next_end_us - end_us)) + 1) * (next_end_us - end_us)
end
