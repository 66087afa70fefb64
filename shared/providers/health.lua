-- Merges the observations of one process into the shared records and returns the records changed since its last call.
-- Arguments: cursor (ms; returns changes since then), half_life_ms of the counts, expire_after_ms of a record, failures_to_open: the
-- consecutive failures that open a circuit; observations, as health-records.ts declares them.
-- Returns: now (ms), then id and record (JSON) of every change.
local smoothing = 0.2
-- Less is no step of the clock that matters, and a trial goes on.
local max_ahead_ms = 1000
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function smooth(old, new, weight)
  if new < 0 then return old end
  if old < 0 then return new end
  return old + (new - old) * (1 - (1 - smoothing) ^ weight)
end

-- Redis' clock was set back since a record was written: what was to come then comes that much earlier.
local function shift(id, record)
  local ahead = record.at - now
  if ahead <= max_ahead_ms then return end
  record.at = now
  for _, field in ipairs({ 'opened_at', 'open_until', 'rest_until', 'failing_since' }) do
    if (record[field] or 0) > 0 then record[field] = record[field] - ahead end
  end
  redis.call('DEL', trial_prefix .. id)
  if record.open_until > now then redis.call('SET', trial_prefix .. id, '1', 'PX', math.ceil(record.open_until - now)) end
end

local function write(id, record)
  redis.call('HSET', health_key, id, cjson.encode(record))
  redis.call('ZADD', changed_key, now, id)
end

-- Returns the cooldown in ms if the circuit was opened.
local function merge(record, observed)
  local successes, failures, first_bytes = observed.successes, observed.failures, observed.first_bytes
  local decay = 0.5 ^ ((now - record.at) / half_life_ms)
  record.at = now
  record.good = record.good * decay + successes
  record.bad = record.bad * decay + failures
  record.first_byte_ms = smooth(record.first_byte_ms, observed.first_byte_ms, math.max(1, first_bytes))
  record.tokens_per_second = smooth(record.tokens_per_second, observed.tokens_per_second, math.max(1, successes))
  if observed.pause_ms > 0 then record.rest_until = math.max(record.rest_until, now + observed.pause_ms) end
  local half_open = record.open_until > 0 and now >= record.open_until
  if half_open and successes + first_bytes > 0 then
    -- The probe succeeded: earlier failures are reset, but one more failure opens the circuit again.
    record.open_until, record.bad, record.run, half_open = 0, failures, failures_to_open - 1, false
  end
  if successes > 0 then record.run = 0 end
  if failures > 0 then
    record.run = record.run + observed.consecutive_failures
    if half_open or (record.open_until == 0 and record.run >= failures_to_open) then
      if record.open_until == 0 then record.opened_at = now end
      record.open_until = now + observed.cooldown_ms
      return observed.cooldown_ms
    end
  end
end

-- Keeps the last failure of a deployment or API key, with the time since when every call has failed, and notes its recovery.
local function note_error(id, record, observed)
  local since = record.failing_since or 0
  local failed = observed.error ~= ''
  if observed.successes > 0 and since > 0 and not failed then
    local text = redis.call('HGET', errors_key, id)
    if text then
      local last = cjson.decode(text)
      last.recovered_at = now
      redis.call('HSET', errors_key, id, cjson.encode(last))
    end
  end
  -- Failures before the last success of the same exchange are over.
  local over = observed.successes > 0 and observed.consecutive_failures == 0
  if failed then
    local last = cjson.decode(observed.error)
    last.at, last.failures = now, record.run
    last.since = (since > 0 and observed.successes == 0) and since or now
    if over then last.recovered_at = now end
    record.failing_since = last.since
    redis.call('HSET', errors_key, id, cjson.encode(last))
  end
  if over then record.failing_since = 0 end
end

-- A new record of what failed before its last record expired continues that failure.
local function new_record(id)
  local text = redis.call('HGET', errors_key, id)
  local last = text and cjson.decode(text)
  return {
    at = now, good = 0, bad = 0, run = 0, open_until = 0, rest_until = 0, first_byte_ms = -1, tokens_per_second = -1,
    failing_since = last and not last.recovered_at and last.since or 0
  }
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', changed_key, string.format('%.0f', now + max_ahead_ms + 1), '+inf', 'LIMIT', 0, 100)) do
  local text = redis.call('HGET', health_key, id)
  local record = text and cjson.decode(text)
  if record then
    shift(id, record)
    write(id, record)
  else
    redis.call('ZREM', changed_key, id)
  end
end

for _, observed in ipairs(observations) do
  local id = observed.id
  local text = redis.call('HGET', health_key, id)
  local record = text and cjson.decode(text) or new_record(id)
  shift(id, record)
  local opened_for_ms = merge(record, observed)
  note_error(id, record, observed)
  write(id, record)
  if opened_for_ms then
    -- Also blocks the probe of processes that have not synchronised yet.
    redis.call('SET', trial_prefix .. id, '1', 'PX', math.max(1, math.floor(opened_for_ms)))
  elseif record.open_until == 0 then
    redis.call('DEL', trial_prefix .. id)
  end
end

-- Deletes expired records, except those with a requested pause.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', changed_key, '-inf', now - expire_after_ms, 'LIMIT', 0, 20)) do
  local text = redis.call('HGET', health_key, id)
  if text and cjson.decode(text).rest_until > now then
    redis.call('ZADD', changed_key, now, id)
  else
    redis.call('HDEL', health_key, id)
    redis.call('ZREM', changed_key, id)
  end
end

local reply = { tostring(now) }
for _, id in ipairs(redis.call('ZRANGEBYSCORE', changed_key, cursor, '+inf')) do
  local text = redis.call('HGET', health_key, id)
  if text then
    reply[#reply + 1] = id
    reply[#reply + 1] = text
  end
end
return reply
