-- How a bucket whose state is a string is written, by both entry scripts. `lifetime_us` is how long the state means
-- something, `extra_ms` what `read_clock` says.

local function needed_ms(lifetime_us)
  return max(1, ceil(min(WAIT_US_MAX, lifetime_us) / 1000))
end

-- Keeps `text`, or with false forgets the bucket, which is as new. The result is false if the key read as nothing but is
-- there: it holds a wrong type, and goes.
local function write_string(key, was_there, text, lifetime_us, extra_ms)
  if not text then
    if not was_there and redis.call('EXISTS', key) == 0 then return true end
    redis.call('DEL', key)
    return was_there
  end
  local ms = digits(needed_ms(lifetime_us) + extra_ms)
  if was_there then
    redis.call('SET', key, text, 'PX', ms)
  elseif not redis.call('SET', key, text, 'PX', ms, 'NX') then
    redis.call('SET', key, text, 'PX', ms)
    return false
  end
  return true
end

-- Keeps a token bucket that nothing changed. Its key lives as long as the rate needs that it was written by; a lower one
-- needs longer. A millisecond of difference is the rounding of both.
local function keep_longer(key, lifetime_us, extra_ms)
  local ms = needed_ms(lifetime_us)
  if redis.call('PTTL', key) + 1 < ms then redis.call('PEXPIRE', key, digits(ms + extra_ms)) end
end
