-- Brings figures of Postgres into Redis where Redis has none or older ones. What is in flight is not touched.
-- ARGV: organisation, balance nano, version, holds, then (optional) key id, month, spent nano, version.
local call = redis.call
local wallet = 'wallet:' .. ARGV[1]
if tonumber(ARGV[3]) > (tonumber(call('HGET', wallet, 'version')) or -1) then
  call('HSET', wallet, 'posted', ARGV[2], 'version', ARGV[3], 'holds', ARGV[4])
end
if ARGV[5] then
  local spend = 'spend:' .. ARGV[5] .. ':' .. ARGV[6]
  if tonumber(ARGV[8]) > (tonumber(call('HGET', spend, 'version')) or -1) then
    call('HSET', spend, 'posted', ARGV[7], 'version', ARGV[8])
    call('EXPIRE', spend, 5184000)
  end
end
return 1
