-- Admits all requests of one event-loop turn: checks key version, rpm and tpm, wallet, monthly cap and budgets; reserves the maximum cost.
-- Arguments: now_ms, instance, max_duration_ms of a request, max_backlog, at_least and valid_since (what the process knows of the
-- number that both stores have, see generation.lua), requests. Of each request:
--   key: a text of fields, each terminated by a record separator: 1 hash  2 version  3 key id  4 organisation
--     5 expires_ms ('')  6 rpm (0 = none)  7 tpm (0 = none)  8 cap nano ('')  9 spends money (0|1)  10 rate key: id of its windows
--     of a key that shares limits with others also: 11 rate key of these ('')  12 their rpm  13 their tpm (0 = none)
--     of a key with budgets also, for each: its account, its limit in nano
--   read_token ('' = cached policy | token under which the policy was just read from Postgres)
--   spend ('' = not read | nano and version of the key's month, which were read with the policy)
--   explicit (1: the client requested that number of output tokens)
--   min_tokens: the wallet does not lower the output tokens below this number
--   likely_tokens: output tokens to reserve now, if the rest can be reserved while the request runs (0 = reserve all)
--   without_tokens (1: it calls no model, so that a full token window does not refuse it)
-- Returns one reply per request. An admitted request gets a text of integers separated by spaces, which is cheaper to parse than a
-- list: output tokens allowed, of these reserved, reserved nano, clamped (0|1), counted tokens, then the starts of the buckets that
-- count them in the key's and in the shared window (microseconds; 0 = none), then for the request window and the token window:
-- remaining amount, ms until it is full again. A refused request gets a list, the verdict first.
local call, format = redis.call, string.format
local reply_format = '%d' .. string.rep(' %d', 10)
local int = function(x) return format('%d', x) end
-- The sweeper compares times of Redis' clock only, because the clocks of processes may differ.
local clock = time_us()
local redis_now = math.floor(clock / 1000)
local deadline = int(redis_now + max_duration_ms)

if call('XLEN', usage_key) > max_backlog then
  local out = {}
  for i = 1, #requests do out[i] = { 'backlog' } end
  return out
end

-- Redis was restored from a backup, or PostgreSQL was: what was copied from PostgreSQL before does not count.
local store = call('HMGET', store_generation_key, 'number', 'valid_since')
local since = store[2] or '1'
if (tonumber(store[1]) or 0) < at_least or tonumber(since) ~= valid_since then
  local out = {}
  for i = 1, #requests do out[i] = { 'outdated' } end
  return out
end
local version_suffix = since == '1' and '' or '@' .. since

-- The refusal of a request that exceeds the key's windows or the shared ones, or nil. Its wait satisfies all limits. `amount`: its tokens;
-- nil = it has none, and waits for no room in their windows, where more may be used than the limit.
local function rate_refusal(requests, tokens, shared_requests, shared_tokens, amount)
  local wait_r, wait_t = requests and wait_ms(requests, 1) or 0, tokens and amount and wait_ms(tokens, amount) or 0
  local shared_r = shared_requests and wait_ms(shared_requests, 1) or 0
  local shared_t = shared_tokens and amount and wait_ms(shared_tokens, amount) or 0
  local wait = math.max(wait_r, wait_t, shared_r, shared_t)
  if wait == 0 then return nil end
  local is_shared = wait_r == 0 and wait_t == 0
  local what = (is_shared and shared_r or wait_r) > 0 and 'requests' or 'tokens'
  local left_r, full_r = window_figures(tighter(requests, shared_requests))
  local left_t, full_t = window_figures(tighter(tokens, shared_tokens))
  return { 'rate', what, wait, left_r, full_r, left_t, full_t, is_shared and 1 or 0 }
end

-- The sum of the active holds, and the earliest release time (0 = none).
local function held_amount(holds)
  local sum, first = 0, 0
  for at, amount in string.gmatch(holds or '', '(%d+):(%d+)') do
    if tonumber(at) > now_ms then
      sum = sum + tonumber(amount)
      if first == 0 or tonumber(at) < first then first = tonumber(at) end
    end
  end
  return sum, first
end

-- Per-call caches: each key, wallet and spend is read once and written once, because hundreds of requests often share one key.
local keys, versions, wallets, spends, reservations = {}, {}, {}, {}, { reservations_prefix .. instance }

local function key_of(text)
  local key = keys[text]
  if key == nil then
    local f = {}
    for field in string.gmatch(text, '([^\30]*)\30') do f[#f + 1] = field end
    key = { hash = f[1], version = f[2], id = f[3], org = f[4], expires = tonumber(f[5]), rpm = tonumber(f[6]) }
    key.tpm, key.cap, key.pays, key.window = tonumber(f[7]), tonumber(f[8]), f[9] == '1', window_prefix .. f[10]
    key.accounts = key.id
    if f[11] and f[11] ~= '' then
      key.shared, key.shared_rpm, key.shared_tpm = window_prefix .. f[11], tonumber(f[12]), tonumber(f[13])
    end
    if f[14] then
      key.budgets = {}
      for i = 14, #f, 2 do
        key.budgets[#key.budgets + 1] = { id = f[i], limit = tonumber(f[i + 1]) }
        key.accounts = key.accounts .. ',' .. f[i]
      end
    end
    keys[text] = key
  end
  return key
end

local function version_of(hash)
  local version = versions[hash]
  if version == nil then
    version = call('GET', version_prefix .. hash)
    versions[hash] = version
  end
  return version
end

-- A wallet, with the reservations added by this call; false when it is not loaded.
local function wallet_of(key)
  local wallet = wallets[key]
  if wallet == nil then
    local m = call('HMGET', key, 'posted', 'unposted', 'reserved', 'holds', 'jobs', 'since')
    -- `jobs` is set once the holds of jobs are loaded: after a wipe, the balance without them would be too high.
    wallet = m[1] and m[5] == since and (m[6] or '1') == since and { added = 0 } or false
    if wallet then
      wallet.held, wallet.release_at = held_amount(m[4])
      wallet.available = tonumber(m[1]) - (tonumber(m[2]) or 0) - (tonumber(m[3]) or 0) - wallet.held
    end
    wallets[key] = wallet
  end
  return wallet
end

-- The spend and the reservations of a key in this month; false when they are not loaded.
local function spend_of(key)
  local spend = spends[key]
  if spend == nil then
    local s = call('HMGET', key, 'posted', 'unposted', 'reserved', 'since')
    spend = s[1] and (s[4] or '1') == since and { added = 0, spent = tonumber(s[1]) + (tonumber(s[2]) or 0), reserved = tonumber(s[3]) or 0 } or false
    spends[key] = spend
  end
  return spend
end

local function room_of(limit, spend)
  return limit - spend.spent - spend.reserved - spend.added
end

-- Of the cap of a key and its budgets the one that leaves the least: the room, the limit, what is spent of it, and the budget's account
-- ('' = the cap). Without any, nothing; false while an account is not loaded.
local function tightest(key, spend, month)
  local room, limit, spent, account
  if key.cap then room, limit, spent, account = room_of(key.cap, spend), key.cap, spend.spent, '' end
  for _, budget in ipairs(key.budgets or {}) do
    local own = spend_of(spend_prefix .. budget.id .. ':' .. month)
    if not own then return false end
    local left = room_of(budget.limit, own)
    if not room or left < room then room, limit, spent, account = left, budget.limit, own.spent, budget.id end
  end
  return room, limit, spent, account
end

-- Installs the spend that was read with the policy, where none is loaded; as post.lua does.
local function install_spend(key, figures)
  local nano, version = string.match(figures, '^(%d+):(%d+)$')
  if not nano then return false end
  call('HSET', key, 'posted', nano, 'version', version, 'since', since)
  call('PERSIST', key)
  spends[key] = nil
  return spend_of(key)
end

-- Returns the output tokens allowed, those of them to reserve now, and their price; or a refusal as the fourth value.
local function afford(wallet, spend, key, request)
  if not wallet or not spend then return nil, nil, nil, { 'load' } end
  local available = wallet.available - wallet.added
  local under_cap, cap, spent, account
  if key.cap or key.budgets then
    under_cap, cap, spent, account = tightest(key, spend, request.month)
    if under_cap == false then return nil, nil, nil, { 'load' } end
  end
  local fixed, rate = request.fixed_nano, request.pico_per_output_token
  local want, likely = request.output_tokens, request.likely_tokens
  local price = function(n) return fixed + math.ceil(n * rate / 1000) end
  local fits = function(amount)
    if rate == 0 then return 0 end
    local n = math.floor((amount - fixed) * 1000 / rate)
    return price(n) > amount and n - 1 or n
  end
  -- One request reserves at most a tenth of the available amount, so that others can run concurrently: the rest is reserved while it
  -- runs, or an implicit number is lowered. An explicit number that cannot be extended is reserved as a whole.
  local share = want
  if rate > 0 and (likely > 0 or request.explicit == 0) then
    local room = math.min(available, under_cap or available)
    share = math.max(4096, fits(fixed + math.floor(room / 10)))
    if likely == 0 then want = math.min(want, share) end
  end
  if cap and price(want) > under_cap then
    if fits(under_cap) < 1 then return nil, nil, nil, { 'cap', int(cap), int(spent), account } end
    want = fits(under_cap)
  end
  if price(want) > available then
    local minimum = math.min(want, request.min_tokens)
    if fits(available) < math.max(minimum, 1) then
      return nil, nil, nil, { 'funds', int(price(minimum)), int(available), int(wallet.held), int(wallet.release_at) }
    end
    want = fits(available)
  end
  local first = want
  if likely > 0 and want > share then first = math.min(likely, share) end
  return want, first, price(first), nil
end

-- Records for the alerts that a cap or budget refused a request, if half of it is spent: below that, the request is too large for the cap.
local function note_cap(account, month, cap, spent)
  if cap == 0 or spent * 2 < cap or call('SCARD', capped_key) >= 10000 then return end
  call('SADD', capped_key, account .. '|' .. month .. '|' .. int(cap))
end

local function admit(request)
  local key, read_token = key_of(request.key), request.read_token
  local amount = request.without_tokens == 0 and request.estimated_tokens or nil
  local hash, version, rpm, tpm = key.hash, key.version, key.rpm, key.tpm
  if read_token == '' then
    if version_of(hash) ~= version .. version_suffix then
      return { 'stale', call('GET', read_token_prefix .. hash) or '-' }
    end
  elseif (call('GET', read_token_prefix .. hash) or '-') == read_token and call('EXISTS', tombstone_prefix .. hash) == 0 then
    versions[hash] = version .. version_suffix
    call('SET', version_prefix .. hash, versions[hash], 'EX', 3600)
  end
  if key.expires and key.expires <= now_ms then return { 'expired' } end

  local calls = rpm > 0 and open_window(key.window .. ':requests', rpm, clock)
  local tokens = tpm > 0 and open_window(key.window .. ':tokens', tpm, clock)
  -- A request larger than the whole limit waits for an empty window instead of always failing.
  if tokens and amount then amount = math.min(amount, tpm) end
  local shared_calls, shared_tokens
  if key.shared then
    shared_calls = key.shared_rpm > 0 and open_window(key.shared .. ':requests', key.shared_rpm, clock)
    shared_tokens = key.shared_tpm > 0 and open_window(key.shared .. ':tokens', key.shared_tpm, clock)
    if shared_tokens and amount then amount = math.min(amount, key.shared_tpm) end
  end
  local refusal = rate_refusal(calls, tokens, shared_calls, shared_tokens, amount)
  if refusal then return refusal end

  local want, first, reserve, clamped = request.output_tokens, request.output_tokens, 0, 0
  if key.pays then
    local month, requested, refusal = request.month, want, nil
    local wallet, spend = wallet_of(wallet_prefix .. key.org), spend_of(spend_prefix .. key.id .. ':' .. month)
    if not spend and request.spend ~= '' then spend = install_spend(spend_prefix .. key.id .. ':' .. month, request.spend) end
    want, first, reserve, refusal = afford(wallet, spend, key, request)
    if refusal then
      if refusal[1] == 'cap' then
        local account = refusal[4] == '' and key.id or refusal[4]
        note_cap(account, month, tonumber(refusal[2]), tonumber(refusal[3]))
      end
      return refusal
    end
    clamped = want < requested and 1 or 0
    if reserve > 0 then
      wallet.added, spend.added = wallet.added + reserve, spend.added + reserve
      for _, budget in ipairs(key.budgets or {}) do
        local own = spend_of(spend_prefix .. budget.id .. ':' .. month)
        own.added = own.added + reserve
      end
      local last = #reservations
      reservations[last + 1] = deadline
      reservations[last + 2] = request.id .. '|' .. key.org .. '|' .. key.accounts .. '|' .. month .. '|' .. int(reserve)
    end
  end
  if calls then count(calls, 1) end
  local bucket = tokens and amount and count(tokens, amount) or 0
  if shared_calls then count(shared_calls, 1) end
  local shared_bucket = shared_tokens and amount and count(shared_tokens, amount) or 0
  local left_r, full_r = window_figures(tighter(calls, shared_calls))
  local left_t, full_t = window_figures(tighter(tokens, shared_tokens))
  return format(reply_format, want, first, reserve, clamped, amount or 0, bucket, shared_bucket, left_r, full_r, left_t, full_t)
end

local out = {}
for i, request in ipairs(requests) do out[i] = admit(request) end
write_windows()
for _, accounts in ipairs({ wallets, spends }) do
  for key, account in pairs(accounts) do
    if account and account.added > 0 then call('HINCRBY', key, 'reserved', int(account.added)) end
  end
end
if #reservations > 1 then
  call('ZADD', unpack(reservations))
  -- Registers the process even before its next heartbeat, in case Redis was wiped: the sweeper must find its reservations.
  call('ZADD', instances_key, 'NX', int(redis_now), instance)
end
return out
