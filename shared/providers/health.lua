-- Folds what one process saw into the shared figures and gives what changed since it last asked.
-- ARGV: cursor (ms; what changed since then is wanted), ms in which counts fade to a half, ms after which figures are
-- forgotten, failures in a row that open a circuit; then for each observation
--   id, calls that went well, calls that failed, those since the last that went well, calls that began to answer,
--   first-byte ms (-1 = none), tokens a second (-1 = none), cool-down ms of a failure, ms it must rest
-- Gives: now (ms), then id and record (JSON) of everything that changed.
local half_life_ms, forget_after_ms, failures_to_open = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local smoothing = 0.2
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function smooth(old, new, weight)
  if new < 0 then return old end
  if old < 0 then return new end
  return old + (new - old) * (1 - (1 - smoothing) ^ weight)
end

-- Gives the ms for which the circuit was opened, if it was.
local function fold(record, good, bad, run, begun, first_byte_ms, tokens_per_second, cool_down_ms, rest_ms)
  local faded = 0.5 ^ ((now - record.at) / half_life_ms)
  record.at = now
  record.good = record.good * faded + good
  record.bad = record.bad * faded + bad
  record.first_byte_ms = smooth(record.first_byte_ms, first_byte_ms, math.max(1, begun))
  record.tokens_per_second = smooth(record.tokens_per_second, tokens_per_second, math.max(1, good))
  if rest_ms > 0 then record.rest_until = math.max(record.rest_until, now + rest_ms) end
  local half_open = record.open_until > 0 and now >= record.open_until
  if half_open and good + begun > 0 then
    -- It answered again: what it failed before is forgotten, but one more failure opens the circuit anew.
    record.open_until, record.bad, record.run, half_open = 0, bad, failures_to_open - 1, false
  end
  if good > 0 then record.run = 0 end
  if bad > 0 then
    record.run = record.run + run
    if half_open or (record.open_until == 0 and record.run >= failures_to_open) then
      record.open_until = now + cool_down_ms
      return cool_down_ms
    end
  end
end

for i = 5, #ARGV, 9 do
  local id, seen = ARGV[i], {}
  for j = 1, 8 do seen[j] = tonumber(ARGV[i + j]) end
  local text = redis.call('HGET', 'health', id)
  local record = text and cjson.decode(text)
    or { at = now, good = 0, bad = 0, run = 0, open_until = 0, rest_until = 0, first_byte_ms = -1, tokens_per_second = -1 }
  local opened_for_ms = fold(record, unpack(seen))
  redis.call('HSET', 'health', id, cjson.encode(record))
  redis.call('ZADD', 'health:changed', now, id)
  if opened_for_ms then
    -- Processes that have yet to hear of it may not begin a trial either.
    redis.call('SET', 'health:trial:' .. id, '1', 'PX', math.max(1, math.floor(opened_for_ms)))
  elseif record.open_until == 0 then
    redis.call('DEL', 'health:trial:' .. id)
  end
end

-- Figures nobody has added to for a while say nothing any more; a pause that was asked for is kept.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', 'health:changed', '-inf', now - forget_after_ms, 'LIMIT', 0, 20)) do
  local text = redis.call('HGET', 'health', id)
  if text and cjson.decode(text).rest_until > now then
    redis.call('ZADD', 'health:changed', now, id)
  else
    redis.call('HDEL', 'health', id)
    redis.call('ZREM', 'health:changed', id)
  end
end

local reply = { tostring(now) }
for _, id in ipairs(redis.call('ZRANGEBYSCORE', 'health:changed', ARGV[1], '+inf')) do
  reply[#reply + 1] = id
  reply[#reply + 1] = redis.call('HGET', 'health', id)
end
return reply
