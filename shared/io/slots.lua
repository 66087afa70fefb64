-- Acquires one of the slots in `slots_key`. Those that were not renewed or released by their time have expired.
-- Arguments: id of the holder, now_ms, expires_at_ms of the slot, max_slots.
-- Returns 1, or 0 when all slots are in use.
local call = redis.call
call('ZREMRANGEBYSCORE', slots_key, '-inf', now_ms)
if call('ZCARD', slots_key) >= max_slots then return 0 end
call('ZADD', slots_key, expires_at_ms, id)
local kept_ms = expires_at_ms - now_ms
if call('PTTL', slots_key) < kept_ms then call('PEXPIRE', slots_key, kept_ms) end
return 1
