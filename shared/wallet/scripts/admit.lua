-- Admits every request that arrived in one event-loop turn: key version, rpm and tpm, wallet, monthly cap; reserves.
-- ARGV: now_ms, instance, longest_ms a request may take, backlog_limit, then 18 per request:
--   1 hash  2 version  3 key id  4 organisation  5 expires_ms ('')  6 rpm (0 = none)  7 tpm (0 = none)  8 cap nano ('')
--   9 spends money (0|1)  10 whose windows it is counted in
--   11 fresh ('' | generation token under which the policy was just read from Postgres)  12 month  13 request id
--   14 estimated tokens  15 fixed nano  16 pico per output token  17 wanted output tokens
--   18 explicit (1: the caller asked for that many)
-- Returns one array per request, its first element the verdict: 1 where it is admitted, then whole numbers alone, which are the
-- cheapest to read.
local call = redis.call
local now, instance = tonumber(ARGV[1]), ARGV[2]
local int = function(x) return string.format('%.0f', x) end
-- What the sweeper compares is Redis' own time, never that of a process: their clocks may differ.
local clock = time_us()
local redis_now = math.floor(clock / 1000)
local deadline = int(redis_now + tonumber(ARGV[3]))

if call('XLEN', 'usage') > tonumber(ARGV[4]) then
  local out = {}
  for i = 5, #ARGV, 18 do out[#out + 1] = { 'backlog' } end
  return out
end

-- The refusal when a request does not fit into the key's windows, or nil. The wait satisfies both limits.
local function limited(requests, tokens, amount)
  local wait_r, wait_t = requests and wait_ms(requests, 1) or 0, tokens and wait_ms(tokens, amount) or 0
  if wait_r == 0 and wait_t == 0 then return nil end
  local left_r, full_r = window_figures(requests)
  return { 'rate', wait_r > 0 and 'requests' or 'tokens', math.max(wait_r, wait_t), left_r, full_r, window_figures(tokens) }
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
  local hash, version, key, org, fresh = ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 10]
  if fresh == '' then
    if call('GET', 'keyversion:' .. hash) ~= version then
      return { 'stale', call('GET', 'keygeneration:' .. hash) or '-' }
    end
  elseif (call('GET', 'keygeneration:' .. hash) or '-') == fresh and call('EXISTS', 'keytombstone:' .. hash) == 0 then
    call('SET', 'keyversion:' .. hash, version, 'EX', 3600)
  end
  if ARGV[a + 4] ~= '' and tonumber(ARGV[a + 4]) <= now then return { 'expired' } end

  local rpm, tpm, amount = tonumber(ARGV[a + 5]), tonumber(ARGV[a + 6]), tonumber(ARGV[a + 13])
  local window = 'window:' .. ARGV[a + 9]
  local requests = rpm > 0 and open_window(window .. ':requests', rpm, clock)
  local tokens = tpm > 0 and open_window(window .. ':tokens', tpm, clock)
  -- A request larger than the whole limit waits for an empty window instead of failing for ever.
  if tokens then amount = math.min(amount, tpm) end
  local refusal = limited(requests, tokens, amount)
  if refusal then return refusal end

  local want, reserve, clamped = tonumber(ARGV[a + 16]), 0, 0
  if ARGV[a + 8] == '1' then
    local month, id, asked, refusal = ARGV[a + 11], ARGV[a + 12], want, nil
    local wallet, spend = 'wallet:' .. org, 'spend:' .. key .. ':' .. month
    local bound = { fixed = tonumber(ARGV[a + 14]), rate = tonumber(ARGV[a + 15]), want = want, explicit = ARGV[a + 17] == '1' }
    want, reserve, refusal = afford(wallet, spend, tonumber(ARGV[a + 7]), bound)
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
  if requests then count(requests, 1) end
  local counted_at = tokens and count(tokens, amount) or 0
  local left_r, full_r = window_figures(requests)
  return { 1, want, reserve, clamped, amount, counted_at, left_r, full_r, window_figures(tokens) }
end

local out = {}
for i = 5, #ARGV, 18 do out[#out + 1] = admit(i) end
write_windows()
return out
