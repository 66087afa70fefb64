-- Installs figures of Postgres where Redis has none, an older version, or one that counts no longer (see generation.lua), and removes booked usage events from the stream: the
-- cost of each moves from `unposted` to `posted` exactly once. Does not change `reserved`.
-- Arguments: events, wallets and spends (key months), which scripts.ts declares. Amounts are nano-dollars.
-- Returns how many wallets and key months were outdated.
local call = redis.call
local int = function(x) return string.format('%.0f', x) end
local outdated = 0
local since = call('HGET', generation_key, 'valid_since') or '1'

-- Whether what Redis has under a key is older than a version of Postgres.
local function is_older(key, version)
  local found = call('HMGET', key, 'version', 'since')
  return tonumber(version) > (tonumber(found[1]) or -1) or (found[2] or '1') ~= since
end

for _, event in ipairs(events) do
  call('XACK', usage_key, 'ledger', event.stream_id)
  if call('XDEL', usage_key, event.stream_id) == 1 and event.cost_nano > 0 then
    local function subtract(key)
      if call('HINCRBY', key, 'unposted', int(-event.cost_nano)) < 0 then call('HSET', key, 'unposted', 0) end
    end
    subtract(wallet_prefix .. event.organisation_id)
    for _, key in ipairs(accounts_of(event.accounts, event.month)) do subtract(key) end
  end
end
for _, wallet in ipairs(wallets) do
  local key = wallet_prefix .. wallet.organisation_id
  if is_older(key, wallet.version) then
    call('HSET', key, 'posted', wallet.balance_nano, 'version', wallet.version, 'holds', wallet.holds, 'since', since)
    outdated = outdated + 1
  end
end
for _, spend in ipairs(spends) do
  local key = spend_prefix .. spend.account .. ':' .. spend.month
  if is_older(key, spend.version) then
    call('HSET', key, 'posted', spend.spent_nano, 'version', spend.version, 'since', since)
    outdated = outdated + 1
  end
  -- Has the unposted charges and the reservations of the month, which must not expire when Redis' clock steps (see forget.lua).
  call('PERSIST', key)
end
return outdated
