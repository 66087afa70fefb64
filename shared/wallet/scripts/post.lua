-- Brings figures of Postgres into Redis where Redis has none or older ones, and takes usage events that were booked off
-- the stream: the cost of each moves from `unposted` into `posted`, exactly once. What is reserved is not touched.
-- ARGV: number of events, then 5 per event: stream id, organisation, key id, month, cost nano;
-- number of wallets, then 4 per wallet: organisation, balance nano, version, holds;
-- then 4 per key month: key id, month, spent nano, version.
-- Returns how many wallets and key months were older than their figures.
local call = redis.call
local int = function(x) return string.format('%.0f', x) end
local i, behind = 2, 0
for _ = 1, tonumber(ARGV[1]) do
  call('XACK', 'usage', 'ledger', ARGV[i])
  local cost = tonumber(ARGV[i + 4])
  if call('XDEL', 'usage', ARGV[i]) == 1 and cost > 0 then
    local wallet, spend = 'wallet:' .. ARGV[i + 1], 'spend:' .. ARGV[i + 2] .. ':' .. ARGV[i + 3]
    for _, key in ipairs({ wallet, spend }) do
      if call('HINCRBY', key, 'unposted', int(-cost)) < 0 then call('HSET', key, 'unposted', 0) end
    end
  end
  i = i + 5
end
local wallets = tonumber(ARGV[i])
i = i + 1
for _ = 1, wallets do
  local key = 'wallet:' .. ARGV[i]
  if tonumber(ARGV[i + 2]) > (tonumber(call('HGET', key, 'version')) or -1) then
    call('HSET', key, 'posted', ARGV[i + 1], 'version', ARGV[i + 2], 'holds', ARGV[i + 3])
    behind = behind + 1
  end
  i = i + 4
end
while i <= #ARGV do
  local key = 'spend:' .. ARGV[i] .. ':' .. ARGV[i + 1]
  if tonumber(ARGV[i + 3]) > (tonumber(call('HGET', key, 'version')) or -1) then
    call('HSET', key, 'posted', ARGV[i + 2], 'version', ARGV[i + 3])
    call('EXPIRE', key, 5184000)
    behind = behind + 1
  end
  i = i + 4
end
return behind
