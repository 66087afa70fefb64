-- Settles many finished requests: gives the reservation back, charges the real cost, corrects tpm, and appends the
-- usage event. A reservation resolves once; a request without one (swept, or Redis was wiped) is charged all the same,
-- because Postgres books each request once whatever arrives here.
-- ARGV: instance, then 10 per request: request id, organisation, key id, month, reserved nano ('' = unknown: whatever
-- stands under the id), cost nano, when its tokens were counted (0 = they were not), token difference, usage event (JSON;
-- '' = nothing to log), whose window its tokens are counted in.
local call = redis.call
local int = function(x) return string.format('%.0f', x) end
local set = 'reservations:' .. ARGV[1]
local deltas, order, standing = {}, {}, nil

local function add(key, field, amount)
  if amount == 0 then return end
  if not deltas[key] then deltas[key] = {}; order[#order + 1] = key end
  deltas[key][field] = (deltas[key][field] or 0) + amount
end

local function find(id)
  if not standing then
    standing = {}
    for _, member in ipairs(call('ZRANGE', set, 0, -1)) do standing[string.match(member, '^[^|]*')] = member end
  end
  return standing[id]
end

for i = 2, #ARGV, 10 do
  local id, org, key, month, reserved = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local cost, at, tokens = tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6]), tonumber(ARGV[i + 7])
  local wallet, spend = 'wallet:' .. org, 'spend:' .. key .. ':' .. month
  local member
  if reserved == '' then member = find(id)
  elseif reserved ~= '0' then member = id .. '|' .. org .. '|' .. key .. '|' .. month .. '|' .. reserved end
  if member and call('ZREM', set, member) == 1 then
    local amount = tonumber(string.match(member, '[^|]*$'))
    add(wallet, 'reserved', -amount)
    add(spend, 'reserved', -amount)
  end
  add(wallet, 'unposted', cost)
  add(spend, 'unposted', cost)
  if ARGV[i + 8] ~= '' then call('XADD', 'usage', '*', 'e', ARGV[i + 8]) end
  if at > 0 and tokens ~= 0 then correct('window:' .. ARGV[i + 9] .. ':tokens', at, tokens) end
end
write_windows()
for _, key in ipairs(order) do
  for field, amount in pairs(deltas[key]) do call('HINCRBY', key, field, int(amount)) end
end
return #order
