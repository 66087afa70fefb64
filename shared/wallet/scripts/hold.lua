-- Transfers reservations from processes to jobs, and releases the holds of ended jobs. The hold of a job belongs to no process:
-- it stays in the sorted set `reservations:jobs` until the job ends, even if processes die.
-- Arguments: instance ('' = any that has a reservation for the job), additions and releases: the holds to add and to release, each
-- with its member (id|organisation|key|month|amount). Idempotent: existing or missing members change nothing.
-- Returns how many were added or removed.
local call = redis.call
local changed, holders = 0, { instance }
if instance == '' and #additions > 0 then holders = call('ZRANGE', instances_key, 0, -1) end

local function release(member)
  for _, holder in ipairs(holders) do
    if call('ZREM', reservations_prefix .. holder, member) == 1 then return true end
  end
  return false
end

local function change_reserved(member, sign)
  add_reserved(member, sign)
  changed = changed + 1
end

for _, hold in ipairs(additions) do
  local moved = release(hold.member)
  local added = call('ZADD', job_holds_key, 'NX', 0, hold.member) == 1
  if added and not moved then change_reserved(hold.member, '')
  elseif moved and not added then change_reserved(hold.member, '-') end
end
for _, hold in ipairs(releases) do
  if call('ZREM', job_holds_key, hold.member) == 1 then change_reserved(hold.member, '-') end
end
return changed
