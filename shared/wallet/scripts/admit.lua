-- Admits every request that arrived in one event-loop turn: key version, rpm and tpm, wallet, monthly cap; reserves.
-- ARGV: now_ms, instance, longest_ms a request may take, backlog_limit, then 18 per request:
--   1 hash  2 version  3 fresh ('' | generation token under which the policy was just read from Postgres)  4 key id
--   5 organisation  6 expires_ms ('')  7 rpm (0 = none)  8 tpm (0 = none)  9 cap nano ('')  10 spends money (0|1)
--   11 month  12 request id  13 estimated tokens  14 fixed nano  15 pico per output token  16 wanted output tokens
--   17 explicit (1: the caller asked for that many)  18 whose minutes it is counted in
-- Returns one array per request, its first element the verdict.
-- Sliding window over two calendar minutes: used = previous · (rest of this minute) + current.
local call = redis.call
local now, instance = tonumber(ARGV[1]), ARGV[2]
local int = function(x) return string.format('%.0f', x) end
-- What the sweeper compares is Redis' own time, never that of a process: their clocks may differ.
local time = call('TIME')
local redis_now = time[1] * 1000 + math.floor(time[2] / 1000)
local deadline = int(redis_now + tonumber(ARGV[3]))
-- What rounding in the last digit may add to a sum that is exactly at its limit.
local speck = 1e-6

if call('XLEN', 'usage') > tonumber(ARGV[4]) then
  local out = {}
  for i = 5, #ARGV, 18 do out[#out + 1] = { 'backlog' } end
  return out
end

-- The two minutes of a key: r requests and t tokens in the current one, pr and pt in the one before; `passed` is the
-- part of the current minute that is over. A process whose clock is behind counts into the minute already begun.
local function window(key)
  local h = call('HMGET', key, 'm', 'r', 'pr', 't', 'pt')
  local minute, passed = math.floor(now / 60000), (now % 60000) / 60000
  local known = tonumber(h[1]) or -10
  if known > minute then minute, passed = known, 0 end
  local w = { minute = minute, passed = passed, r = 0, pr = 0, t = 0, pt = 0 }
  if known == minute then
    w.r, w.pr, w.t, w.pt = tonumber(h[2]) or 0, tonumber(h[3]) or 0, tonumber(h[4]) or 0, tonumber(h[5]) or 0
  elseif known == minute - 1 then
    w.pr, w.pt = tonumber(h[2]) or 0, tonumber(h[4]) or 0
  end
  w.used_r, w.used_t = w.pr * (1 - passed) + w.r, w.pt * (1 - passed) + w.t
  return w
end

-- Milliseconds until `amount` more fits, given what the two minutes hold.
local function wait(limit, amount, current, previous, passed)
  local room = limit - amount - current
  if room >= 0 and previous > 0 then return math.ceil((1 - room / previous - passed) * 60000 - speck) end
  local later = 1 - math.max(0, limit - amount) / math.max(current, 1)
  return math.ceil((1 - passed + math.max(0, later)) * 60000 - speck)
end

local function figures(rpm, tpm, w)
  local full = function(current, previous)
    if current > 0 then return math.ceil((2 - w.passed) * 60000) end
    return previous > 0 and math.ceil((1 - w.passed) * 60000) or 0
  end
  local left = function(limit, used) return math.max(0, math.floor(limit - used + speck)) end
  return left(rpm, w.used_r), full(w.r, w.pr), left(tpm, w.used_t), full(w.t, w.pt)
end

-- The refusal when a request does not fit into the key's windows, or nil. The wait satisfies both limits.
local function limited(rpm, tpm, tokens, w)
  local over_r = rpm > 0 and w.used_r + 1 > rpm + speck
  local over_t = tpm > 0 and w.used_t + tokens > tpm + speck
  if not over_r and not over_t then return nil end
  local ms = math.max(over_r and wait(rpm, 1, w.r, w.pr, w.passed) or 0, over_t and wait(tpm, tokens, w.t, w.pt, w.passed) or 0)
  return { 'rate', over_r and 'requests' or 'tokens', int(ms), figures(rpm, tpm, w) }
end

local function held(holds)
  local sum, first = 0, 0
  for at, amount in string.gmatch(holds or '', '(%d+):(%d+)') do
    if tonumber(at) > now then
      sum = sum + tonumber(amount)
      if first == 0 or tonumber(at) < first then first = tonumber(at) end
    end
  end
  return sum, first
end

-- Output tokens granted and the amount to reserve, or a refusal as the third value.
local function afford(wallet, spend, cap, bound)
  local m = call('HMGET', wallet, 'posted', 'unposted', 'reserved', 'holds', 'jobs')
  local s = call('HMGET', spend, 'posted', 'unposted', 'reserved')
  -- `jobs` says that what jobs hold is counted: after a wipe the balance alone would be too much.
  if not m[1] or not s[1] or not m[5] then return nil, nil, { 'load' } end
  local held_now, release_at = held(m[4])
  local available = tonumber(m[1]) - (tonumber(m[2]) or 0) - (tonumber(m[3]) or 0) - held_now
  local spent = tonumber(s[1]) + (tonumber(s[2]) or 0)
  local under_cap = cap and cap - spent - (tonumber(s[3]) or 0)
  local fixed, rate, explicit, want = bound.fixed, bound.rate, bound.explicit, bound.want
  local price = function(n) return fixed + math.ceil(n * rate / 1000) end
  local fits = function(amount)
    if rate == 0 then return 0 end
    local n = math.floor((amount - fixed) * 1000 / rate)
    return price(n) > amount and n - 1 or n
  end
  -- Nobody named a number: one request takes at most a tenth of what is left, so that others run beside it.
  if not explicit and rate > 0 then
    local room = math.min(available, under_cap or available)
    want = math.min(want, math.max(4096, fits(fixed + math.floor(room / 10))))
  end
  if cap and price(want) > under_cap then
    if fits(under_cap) < 1 then return nil, nil, { 'cap', int(cap), int(spent) } end
    want = fits(under_cap)
  end
  if price(want) > available then
    if explicit or fits(available) < 1 then
      local required = price(explicit and want or math.min(want, 1))
      return nil, nil, { 'funds', int(required), int(available), int(held_now), int(release_at) }
    end
    want = fits(available)
  end
  return want, price(want), nil
end

-- Tells the alerts that a cap refuses requests, once half of it is spent: before that the request is too large, not the cap used up.
local function note_cap(key, month, cap, spent)
  if cap == 0 or spent * 2 < cap or call('SCARD', 'alerts:capped') >= 10000 then return end
  call('SADD', 'alerts:capped', key .. '|' .. month .. '|' .. int(cap))
end

local function admit(a)
  local hash, version, fresh, key, org = ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4]
  if fresh == '' then
    if call('GET', 'keyversion:' .. hash) ~= version then
      return { 'stale', call('GET', 'keygeneration:' .. hash) or '-' }
    end
  elseif (call('GET', 'keygeneration:' .. hash) or '-') == fresh and call('EXISTS', 'keytombstone:' .. hash) == 0 then
    call('SET', 'keyversion:' .. hash, version, 'EX', 3600)
  end
  if ARGV[a + 5] ~= '' and tonumber(ARGV[a + 5]) <= now then return { 'expired' } end

  local rpm, tpm, tokens, w = tonumber(ARGV[a + 6]), tonumber(ARGV[a + 7]), tonumber(ARGV[a + 12]), nil
  local rate = 'rate:' .. ARGV[a + 17]
  if rpm > 0 or tpm > 0 then
    w = window(rate)
    -- A request larger than the whole limit waits for an empty window instead of failing for ever.
    if tpm > 0 then tokens = math.min(tokens, tpm) end
    local refusal = limited(rpm, tpm, tokens, w)
    if refusal then return refusal end
  end

  local want, reserve, clamped = tonumber(ARGV[a + 15]), 0, 0
  if ARGV[a + 9] == '1' then
    local month, id, asked, refusal = ARGV[a + 10], ARGV[a + 11], want, nil
    local wallet, spend = 'wallet:' .. org, 'spend:' .. key .. ':' .. month
    local bound = { fixed = tonumber(ARGV[a + 13]), rate = tonumber(ARGV[a + 14]), want = want, explicit = ARGV[a + 16] == '1' }
    want, reserve, refusal = afford(wallet, spend, tonumber(ARGV[a + 8]), bound)
    if refusal then
      if refusal[1] == 'cap' then note_cap(key, month, tonumber(refusal[2]), tonumber(refusal[3])) end
      return refusal
    end
    clamped = want < asked and 1 or 0
    if reserve > 0 then
      call('HINCRBY', wallet, 'reserved', int(reserve))
      call('HINCRBY', spend, 'reserved', int(reserve))
      call('ZADD', 'reservations:' .. instance, deadline, id .. '|' .. org .. '|' .. key .. '|' .. month .. '|' .. int(reserve))
      -- Known even before its next heartbeat, should Redis have been wiped: the sweeper must find what it reserved.
      call('ZADD', 'instances', 'NX', int(redis_now), instance)
    end
  end
  if not w then return { 'ok', int(want), int(reserve), clamped, int(tokens), 0 } end

  w.r, w.t, w.used_r, w.used_t = w.r + 1, w.t + tokens, w.used_r + 1, w.used_t + tokens
  call('HSET', rate, 'm', int(w.minute), 'r', int(w.r), 'pr', int(w.pr), 't', int(w.t), 'pt', int(w.pt))
  call('PEXPIRE', rate, 180000)
  return { 'ok', int(want), int(reserve), clamped, int(tokens), w.minute, figures(rpm, tpm, w) }
end

local out = {}
for i = 5, #ARGV, 18 do out[#out + 1] = admit(i) end
return out
