-- Heartbeat of a process, by Redis' own clock; unregisters it when it ends.
-- Arguments: instance, alive (1) or ended (0).
local now = math.floor(time_us() / 1000)
-- A Redis that is full refuses a script whose first write takes room. This one takes none: a process that cannot beat counts as dead, and a
-- worker that cannot start books no usage events, which makes room.
redis.call('PERSIST', instances_key)
redis.call('ZADD', instances_key, alive == 1 and string.format('%.0f', now) or 0, instance)
return 1
