-- Settles many finished requests: releases the reservation, charges the actual cost, corrects tpm, and appends the usage
-- event. A reservation is released once; a request without one (swept, or Redis was wiped) is charged all the same, because
-- Postgres books each request once.
-- Arguments: instance, settlements. A reservation with unknown amount (reserved_nano is '') is looked up by the id; token_bucket_us
-- and shared_token_bucket_us are the starts of the buckets that count its tokens (0 = none); event is JSON ('' = none); rate_key and
-- shared_rate_key ('' = none) are the ids of these windows.
local call = redis.call
local int = function(x) return string.format('%d', x) end
local set = reservations_prefix .. instance
local deltas, order, members_by_id = {}, {}, nil

local function add(key, field, amount)
  if amount == 0 then return end
  if not deltas[key] then deltas[key] = {}; order[#order + 1] = key end
  deltas[key][field] = (deltas[key][field] or 0) + amount
end

local function find(id)
  if not members_by_id then
    members_by_id = {}
    for _, member in ipairs(call('ZRANGE', set, 0, -1)) do members_by_id[string.match(member, '^[^|]*')] = member end
  end
  return members_by_id[id]
end

-- Finds and removes the existing reservations of all requests with one command each.
local members, member_at, exists = {}, {}, {}
for i, s in ipairs(settlements) do
  local member
  if s.reserved_nano == '' then member = find(s.id)
  elseif s.reserved_nano ~= '0' then
    member = s.id .. '|' .. s.organisation_id .. '|' .. s.accounts .. '|' .. s.month .. '|' .. s.reserved_nano
  end
  if member then members[#members + 1] = member end
  member_at[i] = member
end
if #members > 0 then
  for i, score in ipairs(call('ZMSCORE', set, unpack(members))) do exists[members[i]] = score or nil end
  call('ZREM', set, unpack(members))
end

for i, s in ipairs(settlements) do
  local member, wallet, spends = member_at[i], wallet_prefix .. s.organisation_id, accounts_of(s.accounts, s.month)
  if member and exists[member] then
    exists[member] = nil
    local amount = tonumber(string.match(member, '[^|]*$'))
    add(wallet, 'reserved', -amount)
    for _, spend in ipairs(spends) do add(spend, 'reserved', -amount) end
  end
  add(wallet, 'unposted', s.cost_nano)
  for _, spend in ipairs(spends) do add(spend, 'unposted', s.cost_nano) end
  if s.event ~= '' then call('XADD', usage_key, '*', 'e', s.event) end
  if s.token_difference ~= 0 then
    if s.token_bucket_us > 0 then correct(window_prefix .. s.rate_key .. ':tokens', s.token_bucket_us, s.token_difference) end
    if s.shared_token_bucket_us > 0 then
      correct(window_prefix .. s.shared_rate_key .. ':tokens', s.shared_token_bucket_us, s.token_difference)
    end
  end
end
write_windows()
for _, key in ipairs(order) do
  for field, amount in pairs(deltas[key]) do
    -- The hash of a month expires; a reservation that outlived it is not missing from the new one.
    if call('HINCRBY', key, field, int(amount)) < 0 and field == 'reserved' then call('HSET', key, 'reserved', 0) end
  end
end
return #order
