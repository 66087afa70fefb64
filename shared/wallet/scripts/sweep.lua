-- Releases leaked reservations: those of processes that ended or whose heartbeat stopped, and those past their deadline. A missing
-- heartbeat counts only while sweeps ran: after a gap without sweeps (Redis or every worker was down), processes get the full
-- time-out again.
-- All times are of Redis' clock, so that clock skew between processes releases no reservation that is in use.
-- While that clock is ahead of the caller's, every deadline seems to have passed: then only dead processes lose their reservations.
-- Arguments: now_ms, the time of the caller, which is PostgreSQL's as well; dead_after_ms, the heartbeat time-out after which a process counts as dead; max_released, the number of reservations
-- to release in this call.
-- Returns the number released.
local call = redis.call
local now = math.floor(time_us() / 1000)
local now_text = string.format('%.0f', now)
local max_ahead_ms = 30000
local is_ahead = now - now_ms > max_ahead_ms
local released = 0
local sweeper = call('HMGET', sweeper_key, 'last', 'since')
local last, since = tonumber(sweeper[1]) or 0, tonumber(sweeper[2]) or now
if math.abs(now - last) > dead_after_ms then since = now end
call('HSET', sweeper_key, 'last', now_text, 'since', string.format('%.0f', since))

local function release(set, member)
  if call('ZREM', set, member) == 0 then return end
  add_reserved(member, '-')
  released = released + 1
end

for _, instance in ipairs(call('ZRANGE', instances_key, 0, -1)) do
  local set, beat = reservations_prefix .. instance, tonumber(call('ZSCORE', instances_key, instance))
  -- The clock was set back since: the process would count as alive until that time.
  if beat > now then
    beat = now
    call('ZADD', instances_key, now_text, instance)
  end
  local dead = beat == 0 or (beat < now - dead_after_ms and since <= now - dead_after_ms)
  local up_to = dead and '+inf' or is_ahead and '-inf' or now_text
  local due = call('ZRANGEBYSCORE', set, '-inf', up_to, 'LIMIT', 0, max_released - released)
  for _, member in ipairs(due) do release(set, member) end
  if dead and call('ZCARD', set) == 0 then call('ZREM', instances_key, instance) end
end
return released
