-- Writes limits at run time, and says what is there: src/stores/redis/runtime-store.ts.
--
-- KEYS   the head; the history; then for each change the hash that its key lies in. All have one hash tag.
-- ARGV   1 an epoch for data that has none; 2 most limits; 3 most changes of the history; 4 number of hashes, and 5 what their keys begin with;
--        6 the head that is to get another epoch, with 7 the number of limits that are left, or both empty; then for each change: key, value,
--        at_us of what has to be there ('' anything older, '0' nothing), at_us ('' now). An empty value drops what is there, unseen by others.
-- reply  the head; then for each change: 'written ' and its at_us, 'conflict ' and what is there ('' nothing), or 'full'
-- state  head: epoch, version, number of limits, at_us of the last change. Hashes: key -> at_us and value. History: version, at_us, key, value,
--        value before, by lines.
--        No lifetime: a limit at run time ends by its own time, and must not be evicted by volatile policies.
local head = redis.call('GET', KEYS[1]) or ''
local epoch, version, count, last_us = string.match(head, '^(%S+) (%d+) (%d+) (%d+)$')
if not epoch then
  -- Not a version that the history has already.
  version, last_us = string.match(redis.call('LINDEX', KEYS[2], -1) or '0\n0\n', '^(%d+)\n(%d+)\n')
  epoch, count = ARGV[1], 0
  for i = 0, ARGV[4] - 1 do count = count + redis.call('HLEN', ARGV[5] .. i) end
elseif ARGV[6] ~= '' and head == ARGV[6] then
  epoch, count = ARGV[1], ARGV[7]
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]

local reply = { '' }
for i = 3, #KEYS do
  local at = 8 + (i - 3) * 4
  local key, value, expected_us, at_us = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local known = redis.call('HGET', KEYS[i], key) or ''
  local known_us, before = string.match(known, '^(%d+) (.*)$')
  known_us = tonumber(known_us or 0)
  at_us = at_us or math.max(now_us, known_us + 1)
  if expected_us == '' and at_us <= known_us or expected_us ~= '' and tonumber(expected_us) ~= known_us then
    reply[i - 1] = 'conflict ' .. known
  elseif value == '' then
    count = count - redis.call('HDEL', KEYS[i], key)
    reply[i - 1] = 'written ' .. string.format('%.0f', known_us)
  elseif known == '' and tonumber(count) >= tonumber(ARGV[2]) then
    reply[i - 1] = 'full'
  else
    local text = string.format('%.0f', at_us)
    last_us = text
    if known == '' then count = count + 1 end
    version = version + 1
    redis.call('HSET', KEYS[i], key, text .. ' ' .. value)
    redis.call('RPUSH', KEYS[2], table.concat({ string.format('%.0f', version), text, key, value, before or '' }, '\n'))
    reply[i - 1] = 'written ' .. text
  end
end
redis.call('LTRIM', KEYS[2], -tonumber(ARGV[3]), -1)
reply[1] = string.format('%s %.0f %.0f %s', epoch, version, count, last_us)
redis.call('SET', KEYS[1], reply[1])
return reply
