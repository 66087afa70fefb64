-- Acquires one of the session slots in `slots_key`. Slots that their process no longer renews have expired.
-- Arguments: id of the session, now_ms, expires_at_ms of the slot, max_slots.
-- Returns 1, or 0 when all slots are in use.
local call = redis.call
call('ZREMRANGEBYSCORE', slots_key, '-inf', now_ms)
if call('ZCARD', slots_key) >= max_slots then return 0 end
call('ZADD', slots_key, expires_at_ms, id)
call('PEXPIRE', slots_key, expires_at_ms - now_ms)
return 1
