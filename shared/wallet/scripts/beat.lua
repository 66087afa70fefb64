-- Says that a process is alive, by Redis' own time, or that it has ended.
-- ARGV: instance, alive (1) or ended (0).
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', 'instances', ARGV[2] == '1' and string.format('%.0f', now) or 0, ARGV[1])
return 1
