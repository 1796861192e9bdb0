-- Writes buckets whose state is a string, for both entry scripts. `lifetime_us` is how long the state is needed, `extra_ms` the extra
-- lifetime that `read_clock` returned.

local function needed_ms(lifetime_us)
  return max(1, ceil(min(WAIT_US_MAX, lifetime_us) / 1000))
end

-- Writes `text`, or deletes a bucket that is as new (false). The result is false if the key was read as nothing but exists: it holds a
-- wrong type and is replaced or deleted.
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

-- Extends the lifetime of an unchanged token bucket. It was set by the rate of the last write, and a lower rate needs a longer one.
-- Both are rounded, so a difference of a millisecond does not count.
local function keep_longer(key, lifetime_us, extra_ms)
  local ms = needed_ms(lifetime_us)
  if redis.call('PTTL', key) + 1 < ms then redis.call('PEXPIRE', key, digits(ms + extra_ms)) end
end
