-- Removes key months that are over, once nothing in them is unposted or reserved: Postgres has what is posted.
-- Arguments: spends (key months).
-- Returns how many were removed.
local removed = 0
for _, spend in ipairs(spends) do
  local key = spend_prefix .. spend.account .. ':' .. spend.month
  local found = redis.call('HMGET', key, 'unposted', 'reserved')
  if (tonumber(found[1]) or 0) == 0 and (tonumber(found[2]) or 0) == 0 then removed = removed + redis.call('DEL', key) end
end
return removed
