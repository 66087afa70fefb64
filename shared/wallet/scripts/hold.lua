-- Moves reservations between the process that made them and the jobs they are for. What a job holds belongs to no
-- process: it stands in `reservations:jobs` until the job is over, whoever lives.
-- ARGV: instance ('' = whichever has a reservation for the job), number of jobs to hold for, then their members
-- (id|organisation|key|month|amount); the members of jobs that are over. A member that is there already, or gone already, changes nothing.
-- Returns how many were added or removed.
local call = redis.call
local jobs, held = 'reservations:jobs', tonumber(ARGV[2])
local changed, holders = 0, { ARGV[1] }
if ARGV[1] == '' and held > 0 then holders = call('ZRANGE', 'instances', 0, -1) end

local function release(member)
  for _, holder in ipairs(holders) do
    if call('ZREM', 'reservations:' .. holder, member) == 1 then return true end
  end
  return false
end

local function count(member, sign)
  local _, org, key, month, amount = string.match(member, '^([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)$')
  for _, hash in ipairs({ 'wallet:' .. org, 'spend:' .. key .. ':' .. month }) do
    if call('HINCRBY', hash, 'reserved', sign .. amount) < 0 then call('HSET', hash, 'reserved', 0) end
  end
  changed = changed + 1
end

for i = 3, 2 + held do
  local moved = release(ARGV[i])
  local added = call('ZADD', jobs, 'NX', 0, ARGV[i]) == 1
  if added and not moved then count(ARGV[i], '')
  elseif moved and not added then count(ARGV[i], '-') end
end
for i = 3 + held, #ARGV do
  if call('ZREM', jobs, ARGV[i]) == 1 then count(ARGV[i], '-') end
end
return changed
