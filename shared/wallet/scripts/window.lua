-- Sliding-window rate limiter, a prefix of the scripts that count requests and tokens per minute. A window has the usage of a key
-- in the last 60 seconds by Redis' clock in microseconds: { used, start, amount, start, amount, … }, packed, oldest bucket first.
-- A bucket has the time of its first request and expires as a whole 60 seconds later: early for its later requests, never late.
-- A bucket that spans more than one instant holds at most a twentieth of the limit, so no 60 seconds exceed 105 % of the limit;
-- two neighbours together hold more than that twentieth, so there are at most about 40.
--
-- `rpm_limit` and `tpm_limit` are per minute. The limit should guarantee two things: no 60 seconds admit notably more,
-- and a client that stays within it in every 60 seconds is never refused. Fixed windows per calendar minute, also
-- weighted ones, give neither: they assume an even spread, so up to twice the limit passes within 60 seconds, and most
-- of a second burst is refused although the first is a minute old. A token bucket, or GCRA, with a full burst admits
-- twice the limit in its first 60 seconds. A log of every request is exact, but its memory and time grow with the
-- limit.
--
-- A sliding-window log of buckets per key, one for requests and one for tokens (`window:<key id>:requests`, `…:tokens`,
-- packed; batch lines have their own). A bucket has the time of its first request and an amount, and expires as a whole
-- 60 seconds after that time. A request joins the newest bucket if that bucket then holds at most a twentieth of the
-- limit, or if both have the same microsecond; otherwise it starts a new one. It is admitted when the sum of the
-- buckets and the request is within the limit.
--
-- - Never refused within the limit. A bucket expires 60 seconds after its first request, so no request counts for
--   longer than that. The sum of the buckets is at most the sum of the last 60 seconds.
-- - At most 105 %. Buckets do not overlap in time. Of the expired ones only the last can hold requests of the last 60
--   seconds, namely those that joined it later; such a bucket holds at most a twentieth of the limit. A single request
--   larger than that has a bucket of its own and expires exactly. Limits below 20 are exact.
-- - Bounded. When a bucket is added, neighbours that together fit into a twentieth are merged, with the earlier time.
--   Any two neighbours then hold more than a twentieth, so there are at most 42 buckets. A request reads and writes one
--   small string per limit; the buckets are scanned only when the oldest expires, one is added, or a request is
--   refused.
--
-- Time is that of Redis (`TIME`), in the script that admits, so it is the same for all processes, whatever their clocks
-- say. When Redis' clock is set back by up to a minute, no bucket expires until it has caught up; beyond that the
-- window restarts empty.
--
-- Tokens are counted at admission with the request's maximum, and the settlement corrects them in the same bucket, or
-- in the one it was merged into; if that has expired, the correction has no effect. Usage beyond the estimate therefore
-- counts from the admission and expires with its bucket. A request larger than the whole limit counts as the limit: it
-- waits for an empty window instead of never being admitted. A delayed job counts with its estimate when it is
-- submitted. Realtime session time counts when it is charged.
--
-- Response headers. `retry-after` is the time until enough buckets of both windows have expired for this request; after
-- it the request is admitted if no other arrived. `remaining` is the room in the window, `reset` the time until it is
-- empty. Refused requests are not counted. A changed limit applies to the next request, against the existing window.
--
-- A request's time is that of its admission: a burst repeated after exactly 60 seconds by the client's clock can arrive
-- some milliseconds early by Redis'. The windows belong to the key, so a roll does not reset them; a Redis wipe does. A
-- request whose admission got no answer from Redis may be counted although it was refused with a 503.
local window_us = 60 * 1000 * 1000

-- Cache: each window is read once and written once per script call.
local windows = {}

local function window_of(key)
  local window = windows[key]
  if not window then
    local packed = redis.call('GET', key)
    window = { log = packed and cmsgpack.unpack(packed) or { 0 }, changed = false }
    windows[key] = window
  end
  return window
end

-- The window of a key, without its expired buckets.
local function open_window(key, limit, now)
  local window = window_of(key)
  local log = window.log
  local newest = log[#log - 1]
  if newest and newest > now then
    -- The clock was set back: uses the newest bucket's time until the clock catches up, unless the gap exceeds a window.
    if newest > now + window_us then log = { 0 } else now = newest end
  end
  if log[2] and log[2] <= now - window_us then
    local live = { 0 }
    for i = 2, #log, 2 do
      if log[i] > now - window_us then
        live[1] = live[1] + log[i + 1]
        live[#live + 1], live[#live + 2] = log[i], log[i + 1]
      end
    end
    log = live
  end
  window.log, window.limit, window.now = log, limit, now
  return window
end

-- Milliseconds until `amount`, which must not exceed the limit, fits; 0 = now.
local function wait_ms(window, amount)
  local log = window.log
  local over = log[1] + amount - window.limit
  for i = 2, #log, 2 do
    if over <= 0 then break end
    over = over - log[i + 1]
    if over <= 0 then return math.ceil((log[i] + window_us - window.now) / 1000) end
  end
  return 0
end

-- Of two windows the one with less room; either may be missing.
local function tighter(one, other)
  if not (one and other) then return one or other end
  return one.limit - one.log[1] <= other.limit - other.log[1] and one or other
end

-- The remaining amount, and the milliseconds until the window is empty.
local function window_figures(window)
  if not window then return 0, 0 end
  local log = window.log
  local newest = log[#log - 1]
  return math.max(0, window.limit - log[1]), newest and math.ceil((newest + window_us - window.now) / 1000) or 0
end

-- Merges neighbours that fit into one bucket, after settlements made them smaller or the limit was raised.
local function compact(log, max_amount)
  local out = { log[1] }
  for i = 2, #log, 2 do
    local last = #out
    if last > 1 and out[last] + log[i + 1] <= max_amount then
      out[last] = out[last] + log[i + 1]
    else
      out[last + 1], out[last + 2] = log[i], log[i + 1]
    end
  end
  return out
end

-- Counts an amount; returns the start of its bucket, by which `correct` finds it. The time of the request would not do: at one
-- instant, a first amount may fit into the bucket before and a second one start a bucket.
local function count(window, amount)
  local log, max_amount = window.log, window.limit / 20
  local last = #log
  if last > 1 and (log[last - 1] == window.now or log[last] + amount <= max_amount) then
    log[last] = log[last] + amount
  else
    log = compact(log, max_amount)
    log[#log + 1], log[#log + 2] = window.now, amount
    window.log = log
  end
  log[1], window.changed = log[1] + amount, true
  return log[#log - 1]
end

-- Corrects an amount in the bucket that started then, or in the one that this was merged into; ignores expired ones.
local function correct(key, bucket_start, difference)
  local window = window_of(key)
  local log = window.log
  for i = #log - 1, 2, -2 do
    if log[i] <= bucket_start then
      local change = math.max(difference, -log[i + 1])
      log[1], log[i + 1], window.changed = log[1] + change, log[i + 1] + change, true
      return
    end
  end
end

local function write_windows()
  for key, window in pairs(windows) do
    -- Expires after twice the window, so that it outlives its buckets even when the clock is set back.
    if window.changed then redis.call('SET', key, cmsgpack.pack(window.log), 'PX', 2 * window_us / 1000) end
  end
end
