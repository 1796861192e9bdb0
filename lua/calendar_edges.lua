-- The ends of calendar windows. The function uses no local of the script: each shared local costs every call of a script.

-- End of the calendar window that contains `at_us`, by the edges that the caller gave. Outside of them, windows are as long as the
-- nearest given one.
local function calendar_end_us(at_us, start_us, end_us, next_end_us)
  if at_us < start_us then return start_us - math.floor((start_us - 1 - at_us) / (end_us - start_us)) * (end_us - start_us) end
  if at_us < end_us then return end_us end
  return next_end_us + (math.floor((at_us - next_end_us) / (next_end_us - end_us)) + 1) * (next_end_us - end_us)
end
