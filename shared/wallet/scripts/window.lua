-- Sliding-window rate limiter, a prefix of the scripts that count requests and tokens per minute. A window has the usage of a key
-- in the last 60 seconds by Redis' clock in microseconds: { used, start, amount, start, amount, … }, packed, oldest bucket first.
-- A bucket has the time of its first request and expires as a whole 60 seconds later: early for its later requests, never late.
-- A bucket that spans more than one instant holds at most a twentieth of the limit, so no 60 seconds exceed 105 % of the limit;
-- two neighbours together hold more than that twentieth, so there are at most about 40. docs/decisions/sliding-window-limits.md
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
