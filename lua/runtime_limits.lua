-- Writes limits at run time, and says what is there: src/stores/redis/runtime-store.ts.
--
-- KEYS   the head; the history; the limits. All have one hash tag.
-- ARGV   1 an epoch for data that is new or has lost limits; 2 most limits; 3 most changes of the history; 4 the head that is to get another
--        epoch, or empty; then for each change: key, value, at_us of what has to be there ('' anything older, '0' nothing), at_us ('' now).
--        An empty value drops what is there, unseen by others.
-- reply  the head; then for each change: 'written ' and its at_us, 'conflict ' and what is there ('' nothing), or 'full'
-- state  head: epoch, version, number of limits, at_us of the last change. History: a sorted set by version of version, at_us, key, value,
--        value before, by lines. Limits: a hash, key -> at_us and value.
--        No lifetime: a limit at run time ends by its own time, and must not be evicted by volatile policies.
local head = redis.call('GET', KEYS[1]) or ''
local epoch, version, kept, last_us = string.match(head, '^(%S+) (%d+) (%d+) (%d+)$')
local count = redis.call('HLEN', KEYS[3])
if not epoch then
  -- Not a version that the history has already.
  version, last_us = string.match(redis.call('ZRANGE', KEYS[2], -1, -1)[1] or '0\n0\n', '^(%d+)\n(%d+)\n')
  epoch = ARGV[1]
elseif head == ARGV[4] or count < tonumber(kept) then
  epoch = ARGV[1]
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]

local reply = { '' }
for at = 5, #ARGV, 4 do
  local key, value, expected_us, at_us = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local known = redis.call('HGET', KEYS[3], key) or ''
  local known_us, before = string.match(known, '^(%d+) (.*)$')
  known_us = tonumber(known_us or 0)
  at_us = at_us or math.max(now_us, known_us + 1)
  if expected_us == '' and at_us <= known_us or expected_us ~= '' and tonumber(expected_us) ~= known_us then
    reply[#reply + 1] = 'conflict ' .. known
  elseif value == '' then
    count = count - redis.call('HDEL', KEYS[3], key)
    reply[#reply + 1] = 'written ' .. string.format('%.0f', known_us)
  elseif known == '' and count >= tonumber(ARGV[2]) then
    reply[#reply + 1] = 'full'
  else
    last_us = string.format('%.0f', at_us)
    version = string.format('%.0f', version + 1)
    count = count + redis.call('HSET', KEYS[3], key, last_us .. ' ' .. value)
    redis.call('ZADD', KEYS[2], version, table.concat({ version, last_us, key, value, before or '' }, '\n'))
    reply[#reply + 1] = 'written ' .. last_us
  end
end
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -tonumber(ARGV[3]) - 1)
reply[1] = string.format('%s %.0f %.0f %s', epoch, version, count, last_us)
redis.call('SET', KEYS[1], reply[1])
return reply
