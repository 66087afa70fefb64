-- Says that a process is alive, by Redis' own time, or that it has ended.
-- ARGV: instance, alive (1) or ended (0).
local now = math.floor(time_us() / 1000)
redis.call('ZADD', 'instances', ARGV[2] == '1' and string.format('%.0f', now) or 0, ARGV[1])
return 1
