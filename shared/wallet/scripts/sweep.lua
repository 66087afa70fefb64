-- Gives back reservations nobody will settle: those of processes that stopped beating, and those past their deadline.
-- ARGV: now_ms, oldest heartbeat_ms of a live process, most reservations to release in this call.
-- Returns the number released.
local call = redis.call
local now, limit, released = ARGV[1], tonumber(ARGV[3]), 0

local function release(set, member)
  if call('ZREM', set, member) == 0 then return end
  local _, org, key, month, amount = string.match(member, '^([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)$')
  for _, hash in ipairs({ 'wallet:' .. org, 'spend:' .. key .. ':' .. month }) do
    if call('HINCRBY', hash, 'reserved', '-' .. amount) < 0 then call('HSET', hash, 'reserved', 0) end
  end
  released = released + 1
end

for _, instance in ipairs(call('ZRANGE', 'instances', 0, -1)) do
  local set = 'reservations:' .. instance
  local dead = tonumber(call('ZSCORE', 'instances', instance)) < tonumber(ARGV[2])
  local due = call('ZRANGEBYSCORE', set, '-inf', dead and '+inf' or now, 'LIMIT', 0, limit - released)
  for _, member in ipairs(due) do release(set, member) end
  if dead and call('ZCARD', set) == 0 then call('ZREM', 'instances', instance) end
end
return released
