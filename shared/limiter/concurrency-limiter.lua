-- Shares the concurrency limit of one provider among processes, and adjusts it by AIMD from the results they report: slow start,
-- then additive increase; multiplicative decrease when too many calls are refused. The state is JSON in `state_key`.
-- Arguments: channel, provider, process_id, max_limit and initial_limit, lease_ms, initial_pause_ms and max_pause_ms, jitter (0 to
-- 1); then the report:
--   demand in calls; committed: calls it may have in flight until it receives the reply; the last epoch it received;
--   answered and refused: calls of those begun since the last decrease; saturated: answers of this epoch while other calls waited;
--   limited_epoch of a rate-limited call (-1 = none); retry_after_ms (0 = none)
-- Returns: calls it may have in flight, epoch, ms of pause left, whether slow start continues, whether other processes still
-- occupy part of its fair share, epoch of the last decrease.
local ttl_ms, max_backoff_ms, rotation_ms = 7200000, 48000, 5000
-- The limit decreases when more than a quarter of the calls in a window were refused. A window is two rounds, at least 64 calls.
local min_window, max_refused_share = 64, 1 / 4
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local text = redis.call('GET', state_key)
-- Epochs are timestamps, so that an epoch from before a Redis wipe never equals a later one.
local state = text and cjson.decode(text)
  or { limit = initial_limit, doubling = true, epoch = now, refusals = 0, rest_until = 0, grown_at = now, leases = {} }
-- Redis' clock was set back: what was to come then, such as the end of a pause, comes that much earlier.
local ahead = (state.at or now) - now
if ahead > 0 then
  state.rest_until, state.grown_at = state.rest_until - ahead, state.grown_at - ahead
  for _, lease in pairs(state.leases) do lease.ends = lease.ends - ahead end
end
state.at = now
state.cut_epoch, state.good, state.bad = state.cut_epoch or state.epoch, state.good or 0, state.bad or 0

local function begin_epoch()
  state.epoch = math.max(now, state.epoch + 1)
  redis.call('PUBLISH', channel, provider)
end

local function pause_for(ms)
  local paused_until = now + math.ceil(math.min(ms, max_pause_ms))
  if ms <= 0 or paused_until <= state.rest_until then return end
  state.rest_until, state.grown_at = paused_until, paused_until
  redis.call('PUBLISH', channel, provider)
end

-- Exponential backoff with jitter, for refusals without a `Retry-After`. An answer resets it.
local function next_backoff()
  local ms = math.min(max_backoff_ms, initial_pause_ms * 2 ^ state.refusals) * (0.75 + jitter / 2)
  state.refusals = state.refusals + 1
  return ms
end

-- The last pause already accounts for calls of an earlier epoch, because they began before it.
local function pause()
  local ms = retry_after_ms
  if limited_epoch == state.epoch then
    local backoff_ms = next_backoff()
    if ms == 0 or state.refusals > 1 then ms = math.max(ms, backoff_ms) end
    begin_epoch()
  end
  pause_for(ms)
end

-- Multiplicative decrease: halves the limit and ignores the results of calls in flight. Pauses a provider that answered nothing.
local function decrease()
  if state.good == 0 then pause_for(next_backoff()) else state.doubling = false end
  state.limit, state.good, state.bad = math.max(1, math.floor(state.limit / 2)), 0, 0
  state.grown_at = math.max(now, state.grown_at)
  begin_epoch()
  state.cut_epoch = state.epoch
end

-- Slow start adds one per answer. Additive increase adds one or a sixteenth per round of answers, whichever is more, and at most
-- one or a sixty-fourth per second: `grown_at` is the time up to which that allowance is used.
local function increase()
  local limit = state.limit
  if state.doubling then
    state.limit = limit + math.min(saturated, limit)
    return
  end
  local rate = math.max(1, limit / 64) / 1000
  local from = math.max(state.grown_at, now - 5000)
  local step = math.min(saturated / limit * math.max(1, limit / 16), math.max(0, now - from) * rate)
  state.limit, state.grown_at = limit + step, from + step / rate
end

if epoch >= state.cut_epoch then state.good, state.bad = state.good + answered, state.bad + refused end
if answered > 0 and epoch == state.epoch then state.refusals = 0 end
if limited_epoch >= 0 then
  state.doubling = false
  pause()
elseif saturated > 0 and epoch == state.epoch then
  increase()
end
state.limit = math.min(state.limit, max_limit)
local total, window = state.good + state.bad, math.max(min_window, 2 * state.limit)
if state.bad > math.max(total, window) * max_refused_share then
  decrease()
elseif total >= window then
  state.good, state.bad = 0, 0
end

for id, lease in pairs(state.leases) do
  if lease.ends <= now then state.leases[id] = nil end
end
-- A process that stops has no demand, but may have calls in flight.
state.leases[process_id] = math.max(demand, committed) > 0 and { wanted = demand, held = committed, ends = now + lease_ms } or nil

-- Max-min fairness: a process that demands less than an equal part gets its demand, and the others share the rest equally. The
-- remainder of the division rotates among them; unused capacity is lent in equal parts. Returns the fair share and the loan.
local function fair_share()
  local ids = {}
  for id in pairs(state.leases) do ids[#ids + 1] = id end
  local function demand_of(id) return state.leases[id].wanted end
  table.sort(ids, function(a, b) return demand_of(a) < demand_of(b) end)
  local left, level, unsatisfied = math.floor(state.limit), nil, 0
  for i, id in ipairs(ids) do
    unsatisfied = #ids - i + 1
    if demand_of(id) * unsatisfied > left then
      level = math.floor(left / unsatisfied)
      break
    end
    left = left - demand_of(id)
  end
  if not level then return demand, math.floor(left / #ids) end
  if demand <= level then return demand, 0 end
  table.sort(ids)
  local position = math.floor(now / rotation_ms)
  for _, id in ipairs(ids) do
    if id == process_id then break end
    if demand_of(id) > level then position = position + 1 end
  end
  return level + (position % unsatisfied < left - level * unsatisfied and 1 or 0), 0
end

local share, is_short = 0, false
if demand > 0 then
  local free = math.floor(state.limit)
  for id, lease in pairs(state.leases) do
    if id ~= process_id then free = free - lease.held end
  end
  local fair, loan = fair_share()
  share = math.max(0, math.min(fair + loan, free))
  is_short = share < fair
  state.leases[process_id].held = math.max(committed, share)
end
redis.call('SET', state_key, cjson.encode(state), 'PX', ttl_ms)
local is_slow_start = state.doubling and state.limit < max_limit
return { share, state.epoch, math.max(0, state.rest_until - now), is_slow_start and 1 or 0, is_short and 1 or 0, state.cut_epoch }
