-- Gives back reservations nobody will settle: those of processes that said goodbye or stopped beating, and those past
-- their deadline. Silence counts only while somebody watched: after a time without sweeps (Redis or every worker was
-- away) the processes get that long again to be heard.
-- All times are Redis' own, so that clocks of processes which differ release nothing that is in use.
-- ARGV: silence_ms after which a process is taken for dead, most reservations to release in this call.
-- Returns the number released.
local call = redis.call
local now = math.floor(time_us() / 1000)
local now_text = string.format('%.0f', now)
local silence, limit, released = tonumber(ARGV[1]), tonumber(ARGV[2]), 0
local watch = call('HMGET', 'sweeper', 'last', 'since')
local last, since = tonumber(watch[1]) or 0, tonumber(watch[2]) or now
if math.abs(now - last) > silence then since = now end
call('HSET', 'sweeper', 'last', now_text, 'since', string.format('%.0f', since))

local function release(set, member)
  if call('ZREM', set, member) == 0 then return end
  local _, org, key, month, amount = string.match(member, '^([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)$')
  for _, hash in ipairs({ 'wallet:' .. org, 'spend:' .. key .. ':' .. month }) do
    if call('HINCRBY', hash, 'reserved', '-' .. amount) < 0 then call('HSET', hash, 'reserved', 0) end
  end
  released = released + 1
end

for _, instance in ipairs(call('ZRANGE', 'instances', 0, -1)) do
  local set, beat = 'reservations:' .. instance, tonumber(call('ZSCORE', 'instances', instance))
  local dead = beat == 0 or (beat < now - silence and since <= now - silence)
  local due = call('ZRANGEBYSCORE', set, '-inf', dead and '+inf' or now_text, 'LIMIT', 0, limit - released)
  for _, member in ipairs(due) do release(set, member) end
  if dead and call('ZCARD', set) == 0 then call('ZREM', 'instances', instance) end
end
return released
