-- The settlement of requests that ended. KEYS[1]: usage stream. ARGV: minute, now in ms, then 11 for each request: key record,
-- organisation, request id, reserved, cost, estimated tokens, input tokens, output tokens, model, status, latency in ms.
-- Changes are summed by wallet and by key: one write each.
local minute, now = ARGV[1], ARGV[2]
local month = string.sub(minute, 1, 6)
local call = redis.call
local held, charged, spent, tokens, settled = {}, {}, {}, {}, 0

for i = 3, #ARGV, 11 do
  local key, organisation, id, reserved, cost = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  if call('ZREM', 'lean:reservations', organisation .. '|' .. id .. '|' .. reserved) == 1 then
    held[organisation] = (held[organisation] or 0) + reserved
    charged[organisation] = (charged[organisation] or 0) + cost
    spent[key] = (spent[key] or 0) + cost
    tokens[key] = (tokens[key] or 0) + ARGV[i + 6] + ARGV[i + 7] - ARGV[i + 5]
    call('XADD', KEYS[1], 'MAXLEN', '~', 200000, '*', 'id', id, 'organisation', organisation, 'key', key,
      'model', ARGV[i + 8], 'input', ARGV[i + 6], 'output', ARGV[i + 7], 'cost', cost, 'at', now,
      'status', ARGV[i + 9], 'ms', ARGV[i + 10])
    settled = settled + 1
  end
end

local function whole(number)
  return string.format('%.0f', number)
end
for organisation, amount in pairs(held) do
  call('HINCRBY', 'lean:wallet:' .. organisation, 'held', whole(-amount))
  call('HINCRBY', 'lean:wallet:' .. organisation, 'balance', whole(-charged[organisation]))
end
for key, amount in pairs(spent) do
  call('HINCRBY', key .. ':spend', month, whole(amount))
  call('HINCRBY', key .. ':' .. minute, 'tokens', whole(tokens[key]))
end
return settled
