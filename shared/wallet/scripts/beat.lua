-- Heartbeat of a process, by Redis' own clock; unregisters it when it ends.
-- Arguments: instance, alive (1) or ended (0).
local now = math.floor(time_us() / 1000)
redis.call('ZADD', instances_key, alive == 1 and string.format('%.0f', now) or 0, instance)
return 1
