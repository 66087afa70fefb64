-- The admission of all requests that arrived in one event-loop turn. ARGV: now in ms, minute, then 6 for each request: key
-- record, request id, estimated tokens, estimated cost, model, scope. Gives 2 for each request: status and organisation.
local now, minute = tonumber(ARGV[1]), ARGV[2]
local month, replies, records = string.sub(minute, 1, 6), {}, {}
local call = redis.call

local function listed(list, item)
  return string.find(',' .. list .. ',', ',' .. item .. ',', 1, true)
end

local function admit(key, id, tokens, cost, model, scope)
  local record = records[key]
  if not record then
    record = call('HMGET', key, 'organisation', 'status', 'expires', 'scopes', 'rpm', 'tpm', 'cap', 'allow')
    records[key] = record
  end
  local organisation, status, expires, scopes, rpm, tpm, cap, allow = unpack(record)
  if not organisation or status ~= 'active' or (expires and tonumber(expires) <= now) then return 401 end
  if scopes ~= '*' and not listed(scopes, scope) then return 403 end
  if allow and not listed(allow, model) then return 404 end
  local window = key .. ':' .. minute
  local requests = call('HINCRBY', window, 'requests', 1)
  if requests == 1 then call('PEXPIRE', window, 120000) end
  if requests > tonumber(rpm) then return 429 end
  if call('HINCRBY', window, 'tokens', tokens) > tonumber(tpm) then
    call('HINCRBY', window, 'tokens', -tokens)
    return 429
  end
  local wallet = 'lean:wallet:' .. organisation
  local money = call('HMGET', wallet, 'balance', 'held')
  if (tonumber(money[1]) or 0) - (tonumber(money[2]) or 0) < tonumber(cost) then return 402 end
  local spent = tonumber(call('HGET', key .. ':spend', month) or '0')
  if spent + tonumber(cost) > tonumber(cap) then return 402 end
  call('HINCRBY', wallet, 'held', cost)
  call('ZADD', 'lean:reservations', now + 900000, organisation .. '|' .. id .. '|' .. cost)
  return 200, organisation
end

for i = 3, #ARGV, 6 do
  local status, organisation = admit(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5])
  replies[#replies + 1] = status
  replies[#replies + 1] = organisation or ''
end
return replies
