-- Reports a bucket to a take, and notes what is to be written of it.
-- EACH report
if remaining < 0 then remaining = 0 end
local is_changed, lasts_us = used ~= opened, lifetimes[key]
if is_changed then
  local text = false
  -- EACH write
  texts[key] = text
end
-- Limits that share a bucket may differ in amount: the longest lifetime counts. Only of a token bucket may it be longer without a change.
if is_changed or algorithm == TOKEN_BUCKET or not saved[key] or holds then
  if not lasts_us or lasts_us < reset_us then lifetimes[key] = reset_us end
end
