-- Settles many finished requests: gives the reservation back, charges the real cost, corrects tpm, and appends the
-- usage event. A reservation resolves once; a request without one (swept, or Redis was wiped) is charged all the same,
-- because Postgres books each request once whatever arrives here.
-- ARGV: now_ms, instance, then 9 per request: request id, organisation, key id, month, reserved nano, cost nano,
-- minute of the tpm window ('' = no limits), token difference, usage event (JSON; '' = nothing to log).
local call = redis.call
local int = function(x) return string.format('%.0f', x) end
local minute, instance = math.floor(tonumber(ARGV[1]) / 60000), ARGV[2]
local deltas, order = {}, {}

local function add(key, field, amount)
  if amount == 0 then return end
  if not deltas[key] then deltas[key] = {}; order[#order + 1] = key end
  deltas[key][field] = (deltas[key][field] or 0) + amount
end

for i = 3, #ARGV, 9 do
  local id, org, key, month = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local reserved, cost, at, tokens = tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), ARGV[i + 6], tonumber(ARGV[i + 7])
  local wallet, spend = 'wallet:' .. org, 'spend:' .. key .. ':' .. month
  if reserved > 0 and call('ZREM', 'reservations:' .. instance, id .. '|' .. org .. '|' .. key .. '|' .. month .. '|' .. ARGV[i + 4]) == 1 then
    add(wallet, 'reserved', -reserved)
    add(spend, 'reserved', -reserved)
  end
  add(wallet, 'unposted', cost)
  add(spend, 'unposted', cost)
  if ARGV[i + 8] ~= '' then call('XADD', 'usage', '*', 'e', ARGV[i + 8]) end
  if at ~= '' and tokens ~= 0 then
    local rate = 'rate:' .. key
    local age = (tonumber(call('HGET', rate, 'm')) or -10) - tonumber(at)
    if age == 0 then call('HINCRBY', rate, 't', int(tokens))
    elseif age == 1 then call('HINCRBY', rate, 'pt', int(tokens)) end
  end
end

for _, key in ipairs(order) do
  for field, amount in pairs(deltas[key]) do call('HINCRBY', key, field, int(amount)) end
end
return #order
