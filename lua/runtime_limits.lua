-- Writes limits at run time, and says what is there: src/stores/redis/runtime-store.ts.
--
-- KEYS   1 the limits; 2 the order of their changes. Both have one hash tag.
-- ARGV   1 most limits; 2 most changes that are kept in order; 3 a head, and 4 the sum that takes the place of its sum
--        if it is still the head, or both empty; then for each change: key, at_us of what has to be there ('' anything
--        older, '0' nothing), at_us, mark, value. An empty value drops what is there.
-- reply  the head; then for each change 'written', 'full', or 'conflict ' and what is there ('' nothing)
-- state  limits: a hash, key -> at_us, mark and value; its field '' is the head: version, sum of all marks modulo 2^48.
--        Order: a sorted set, keys by version. No lifetime: a limit ends by its own time, and must not be evicted by
--        volatile policies.
local head = redis.call('HGET', KEYS[1], '') or ''
local version, sum = string.match(head, '^(%d+) (%d+)$')
version, sum = tonumber(version or 0), tonumber(sum or 0)
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local is_changed = false

if ARGV[4] ~= '' and head == ARGV[3] then
  sum = tonumber(ARGV[4])
  is_changed = true
end
local reply = { '' }
for at = 5, #ARGV, 5 do
  local key, expected_us, at_us, mark, value = unpack(ARGV, at, at + 4)
  local known = redis.call('HGET', KEYS[1], key) or ''
  local known_us, known_mark = string.match(known, '^(%d+) (%d+) ')
  known_us, known_mark = tonumber(known_us or 0), tonumber(known_mark or 0)
  local is_newer = tonumber(at_us) > known_us or tonumber(at_us) == known_us and tonumber(mark) > known_mark
  if expected_us == '' and not is_newer or expected_us ~= '' and tonumber(expected_us) ~= known_us then
    reply[#reply + 1] = 'conflict ' .. known
  elseif known == '' and expected_us ~= '' and redis.call('HLEN', KEYS[1]) > tonumber(ARGV[1]) then
    reply[#reply + 1] = 'full'
  else
    is_changed = true
    version = math.max(version + 1, now_us)
    if value == '' then
      sum = (sum - known_mark) % 2 ^ 48
      redis.call('HDEL', KEYS[1], key)
      redis.call('ZREM', KEYS[2], key)
    else
      sum = (sum - known_mark + mark) % 2 ^ 48
      redis.call('HSET', KEYS[1], key, at_us .. ' ' .. mark .. ' ' .. value)
      redis.call('ZADD', KEYS[2], string.format('%.0f', version), key)
    end
    reply[#reply + 1] = 'written'
  end
end
if is_changed then
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -tonumber(ARGV[2]) - 1)
  head = string.format('%.0f %.0f', math.max(version, ARGV[4] ~= '' and now_us or 0), sum)
  redis.call('HSET', KEYS[1], '', head)
end
reply[1] = head
return reply
