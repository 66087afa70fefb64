-- Shares the limit of one provider's lane among the processes that have calls for it, and moves the limit with what the
-- provider answers: up as in TCP, halved when it refuses too large a share. `lane:<provider>` holds everything, as JSON.
-- ARGV: provider, process, most and first limit, lease ms, ms of a first pause and of the longest; then what the process says:
--   calls it wants in flight, calls it may have in flight until it hears from us, jitter (0 to 1),
--   epoch it knows, calls that were answered of those since the last cut, answers of this epoch for whose place others
--   waited, calls that were refused since the last cut,
--   epoch of a call that was limited (-1 = none), ms for which the provider asked to be left alone
-- Gives: calls it may have in flight, epoch, ms of pause left, whether answers let the limit double, whether others still
-- hold what is this process's fair share, epoch of the last cut.
local provider, process, most, first = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local lease_ms, pause_ms, longest_pause_ms = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local wanted, keeps, jitter = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local epoch, answered, crowded, refused = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14])
local limited_in, asked_ms = tonumber(ARGV[15]), tonumber(ARGV[16])

local key, forget_after_ms, longest_backoff_ms, turn_ms = 'lane:' .. provider, 7200000, 48000, 5000
-- Of the calls of about two rounds, at least 64, more than a quarter must be refused for a cut.
local min_window, max_refused_share = 64, 1 / 4
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local text = redis.call('GET', key)
-- Epochs are moments, so that those of before a wipe are never taken for those of after it.
local lane = text and cjson.decode(text)
  or { limit = first, doubling = true, epoch = now, refusals = 0, rest_until = 0, grown_at = now, leases = {} }
lane.cut_epoch, lane.good, lane.bad = lane.cut_epoch or lane.epoch, lane.good or 0, lane.bad or 0

local function begin_epoch()
  lane.epoch = math.max(now, lane.epoch + 1)
  redis.call('PUBLISH', 'lanes', provider)
end

local function rest(ms)
  local rest_until = now + math.ceil(math.min(ms, longest_pause_ms))
  if ms <= 0 or rest_until <= lane.rest_until then return end
  lane.rest_until, lane.grown_at = rest_until, rest_until
  redis.call('PUBLISH', 'lanes', provider)
end

-- The pause of a provider that does not say how long: longer each time that nothing was answered since the last one.
local function backoff()
  local ms = math.min(longest_backoff_ms, pause_ms * 2 ^ lane.refusals) * (0.75 + jitter / 2)
  lane.refusals = lane.refusals + 1
  return ms
end

-- Calls of an earlier epoch began before the last pause: what they say was known then.
local function pause()
  local ms = asked_ms
  if limited_in == lane.epoch then
    local backoff_ms = backoff()
    if ms == 0 or lane.refusals > 1 then ms = math.max(ms, backoff_ms) end
    begin_epoch()
  end
  rest(ms)
end

-- Half the limit, and the calls under way do not count any more. A provider that answers nothing at all is left alone.
local function cut()
  if lane.good == 0 then rest(backoff()) else lane.doubling = false end
  lane.limit, lane.good, lane.bad = math.max(1, math.floor(lane.limit / 2)), 0, 0
  lane.grown_at = math.max(now, lane.grown_at)
  begin_epoch()
  lane.cut_epoch = lane.epoch
end

-- By one for each answer while it doubles; then, per round of answers, by one or a sixteenth, but however fast they are,
-- by no more than one or a sixty-fourth a second: `grown_at` is when that was used up.
local function grow()
  local limit = lane.limit
  if lane.doubling then
    lane.limit = limit + math.min(crowded, limit)
    return
  end
  local rate = math.max(1, limit / 64) / 1000
  local from = math.max(lane.grown_at, now - 5000)
  local step = math.min(crowded / limit * math.max(1, limit / 16), math.max(0, now - from) * rate)
  lane.limit, lane.grown_at = limit + step, from + step / rate
end

if epoch >= lane.cut_epoch then lane.good, lane.bad = lane.good + answered, lane.bad + refused end
if answered > 0 and epoch == lane.epoch then lane.refusals = 0 end
if limited_in >= 0 then
  lane.doubling = false
  pause()
elseif crowded > 0 and epoch == lane.epoch then
  grow()
end
lane.limit = math.min(lane.limit, most)
local seen, window = lane.good + lane.bad, math.max(min_window, 2 * lane.limit)
if lane.bad > math.max(seen, window) * max_refused_share then
  cut()
elseif seen >= window then
  lane.good, lane.bad = 0, 0
end

for id, lease in pairs(lane.leases) do
  if lease.ends <= now then lane.leases[id] = nil end
end
lane.leases[process] = wanted > 0 and { wanted = wanted, held = keeps, ends = now + lease_ms } or nil

-- Max-min fair: who wants less than an equal part gets that, the others share the rest. What cannot be divided goes
-- round; what nobody wants is lent to all alike, for when they want more. Gives fair share and loan.
local function fair()
  local ids = {}
  for id in pairs(lane.leases) do ids[#ids + 1] = id end
  local function wants(id) return lane.leases[id].wanted end
  table.sort(ids, function(a, b) return wants(a) < wants(b) end)
  local left, level, hungry = math.floor(lane.limit), nil, 0
  for i, id in ipairs(ids) do
    hungry = #ids - i + 1
    if wants(id) * hungry > left then
      level = math.floor(left / hungry)
      break
    end
    left = left - wants(id)
  end
  if not level then return wanted, math.floor(left / #ids) end
  if wanted <= level then return wanted, 0 end
  table.sort(ids)
  local place = math.floor(now / turn_ms)
  for _, id in ipairs(ids) do
    if id == process then break end
    if wants(id) > level then place = place + 1 end
  end
  return level + (place % hungry < left - level * hungry and 1 or 0), 0
end

local share, short = 0, false
if wanted > 0 then
  local free = math.floor(lane.limit)
  for id, lease in pairs(lane.leases) do
    if id ~= process then free = free - lease.held end
  end
  local part, loan = fair()
  share = math.max(0, math.min(part + loan, free))
  short = share < part
  lane.leases[process].held = math.max(keeps, share)
end
redis.call('SET', key, cjson.encode(lane), 'PX', forget_after_ms)
local growing = lane.doubling and lane.limit < most
return { share, lane.epoch, math.max(0, lane.rest_until - now), growing and 1 or 0, short and 1 or 0, lane.cut_epoch }
