-- Counts on the number that both stores have. Every number is in Redis before it is in PostgreSQL: a number in PostgreSQL that Redis does
-- not have means that Redis lost its last writes, or was restored from a time before them. Then a new number is chosen that no wallet,
-- spend or key version in this Redis has, so that all of them are read from PostgreSQL again.
-- Arguments: at_least, a number that Redis must have; noted, a number that PostgreSQL has (0 = unknown); advance_after_ms, counts on if
-- nobody did so for longer.
-- Returns the number; the highest one known to be in PostgreSQL; the number since which what was copied from PostgreSQL counts;
-- 1 if it counted on, 2 if Redis was behind.
local call = redis.call
local int = function(x) return string.format('%.0f', x) end
local state = call('HMGET', generation_key, 'number', 'noted', 'valid_since', 'advanced_at')
local number, valid_since, change = tonumber(state[1]) or 0, tonumber(state[3]) or 1, 0
local now = math.floor(time_us() / 1000)
if number < at_least then
  number, change = at_least + 1, 2
  valid_since = number
elseif math.abs(now - (tonumber(state[4]) or 0)) > advance_after_ms then
  number, change = number + 1, 1
end
local highest = math.max(tonumber(state[2]) or 0, noted)
call('HSET', generation_key, 'number', int(number), 'noted', int(highest), 'valid_since', int(valid_since))
if change > 0 then call('HSET', generation_key, 'advanced_at', int(now)) end
return { number, highest, valid_since, change }
