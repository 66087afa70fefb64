-- Takes one of an organisation's seats for a session. Seats whose process no longer renews them are free.
-- ARGV: organisation, session id, now_ms, until when the seat is kept in ms, how many seats there are.
-- Returns 1, or 0 when all of them are taken.
local call, key = redis.call, 'realtime:' .. ARGV[1]
call('ZREMRANGEBYSCORE', key, '-inf', ARGV[3])
if call('ZCARD', key) >= tonumber(ARGV[5]) then return 0 end
call('ZADD', key, ARGV[4], ARGV[2])
call('PEXPIRE', key, ARGV[4] - ARGV[3])
return 1
