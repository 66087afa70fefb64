-- Admits every request that arrived in one event-loop turn: key version, rpm and tpm, wallet, monthly cap; reserves.
-- ARGV: now_ms, instance, deadline_ms, backlog_limit, then 17 per request:
--   1 hash  2 version  3 fresh ('' | generation token under which the policy was just read from Postgres)  4 key id
--   5 organisation  6 expires_ms ('')  7 rpm (0 = none)  8 tpm (0 = none)  9 cap nano ('')  10 spends money (0|1)
--   11 month  12 request id  13 estimated tokens  14 fixed nano  15 pico per output token  16 wanted output tokens
--   17 explicit (1: the caller asked for that many)
-- Returns one array per request, its first element the verdict.
-- Sliding window over two calendar minutes: used = previous · (rest of this minute) + current.
local call = redis.call
local now, instance, deadline = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local minute = math.floor(now / 60000)
local passed = (now % 60000) / 60000
local int = function(x) return string.format('%.0f', x) end

if call('XLEN', 'usage') > tonumber(ARGV[4]) then
  local out = {}
  for i = 5, #ARGV, 17 do out[#out + 1] = { 'backlog' } end
  return out
end

local function window(key)
  local w = call('HMGET', key, 'm', 'r', 'pr', 't', 'pt')
  local age = minute - (tonumber(w[1]) or -10)
  if age == 0 then return { r = tonumber(w[2]) or 0, pr = tonumber(w[3]) or 0, t = tonumber(w[4]) or 0, pt = tonumber(w[5]) or 0 } end
  if age == 1 then return { r = 0, pr = tonumber(w[2]) or 0, t = 0, pt = tonumber(w[4]) or 0 } end
  return { r = 0, pr = 0, t = 0, pt = 0 }
end

-- Milliseconds until `amount` more fits, given what the two minutes hold.
local function wait(limit, current, previous, amount)
  local room = limit - amount - current
  if room >= 0 and previous > 0 then return math.ceil((1 - room / previous - passed) * 60000) end
  local later = 1 - math.max(0, limit - amount) / math.max(current, 1)
  return math.ceil((1 - passed + math.max(0, later)) * 60000)
end

local function figures(rpm, tpm, w)
  local used_r, used_t = w.pr * (1 - passed) + w.r, w.pt * (1 - passed) + w.t
  local full = function(current, previous)
    if current > 0 then return math.ceil((2 - passed) * 60000) end
    return previous > 0 and math.ceil((1 - passed) * 60000) or 0
  end
  return math.max(0, math.floor(rpm - used_r)), full(w.r, w.pr), math.max(0, math.floor(tpm - used_t)), full(w.t, w.pt)
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

  local rpm, tpm = tonumber(ARGV[a + 6]), tonumber(ARGV[a + 7])
  local tokens = tonumber(ARGV[a + 12])
  local w
  if rpm > 0 or tpm > 0 then
    w = window('rate:' .. key)
    if rpm > 0 and w.pr * (1 - passed) + w.r + 1 > rpm then
      return { 'rate', 'requests', int(wait(rpm, w.r, w.pr, 1)), figures(rpm, tpm, w) }
    end
    if tpm > 0 then
      tokens = math.min(tokens, tpm)
      if w.pt * (1 - passed) + w.t + tokens > tpm then
        return { 'rate', 'tokens', int(wait(tpm, w.t, w.pt, tokens)), figures(rpm, tpm, w) }
      end
    end
  end

  local want, reserve, clamped = tonumber(ARGV[a + 15]), 0, 0
  if ARGV[a + 9] == '1' then
    local month, id = ARGV[a + 10], ARGV[a + 11]
    local fixed, rate, explicit = tonumber(ARGV[a + 13]), tonumber(ARGV[a + 14]), ARGV[a + 16] == '1'
    local wallet, spend = 'wallet:' .. org, 'spend:' .. key .. ':' .. month
    local m = call('HMGET', wallet, 'posted', 'unposted', 'reserved', 'holds')
    if not m[1] then return { 'load' } end
    local held_now, release_at = held(m[4])
    local available = tonumber(m[1]) - (tonumber(m[2]) or 0) - (tonumber(m[3]) or 0) - held_now
    local room, cap, spent = available, nil, 0
    local s = call('HMGET', spend, 'posted', 'unposted', 'reserved')
    if not s[1] then return { 'load' } end
    if ARGV[a + 8] ~= '' then
      cap = tonumber(ARGV[a + 8])
      spent = tonumber(s[1]) + (tonumber(s[2]) or 0)
      room = math.min(room, cap - spent - (tonumber(s[3]) or 0))
    end
    local caproom = cap and cap - spent - (tonumber(s[3]) or 0)
    local price = function(n) return fixed + math.ceil(n * rate / 1000) end
    local fits = function(amount) return math.floor((amount - fixed) * 1000 / rate) end
    local asked = want
    -- Nobody named a number: one request takes at most a tenth of what is left, so that others run beside it.
    if not explicit and rate > 0 then want = math.min(want, math.max(4096, fits(fixed + room / 10))) end
    if cap and price(want) > caproom then
      if rate == 0 or fits(caproom) < 1 then return { 'cap', int(cap), int(spent) } end
      want = fits(caproom)
    end
    if price(want) > available then
      if explicit or rate == 0 or fits(available) < 1 then
        return { 'funds', int(price(explicit and want or math.min(want, 1))), int(available), int(held_now), int(release_at) }
      end
      want = fits(available)
    end
    clamped = want < asked and 1 or 0
    reserve = price(want)
    if reserve > 0 then
      call('HINCRBY', wallet, 'reserved', int(reserve))
      call('HINCRBY', spend, 'reserved', int(reserve))
      call('ZADD', 'reservations:' .. instance, deadline, id .. '|' .. org .. '|' .. key .. '|' .. month .. '|' .. int(reserve))
    end
  end

  if w then
    w.r, w.t = w.r + 1, w.t + tokens
    call('HSET', 'rate:' .. key, 'm', int(minute), 'r', int(w.r), 'pr', int(w.pr), 't', int(w.t), 'pt', int(w.pt))
    call('PEXPIRE', 'rate:' .. key, 180000)
    return { 'ok', int(want), int(reserve), clamped, int(tokens), figures(rpm, tpm, w) }
  end
  return { 'ok', int(want), int(reserve), clamped, int(tokens) }
end

local out = {}
for i = 5, #ARGV, 17 do out[#out + 1] = admit(i) end
return out
