-- The accounts of a month that a reservation or a charge counts in, a prefix of the scripts that change them: that of its key, and those
-- of the budgets that it was admitted under. They are one text, the ids separated by commas: almost always a single id.
local account_keys = {}

-- The keys of the accounts.
local function accounts_of(ids, month)
  local name = ids .. ':' .. month
  local found = account_keys[name]
  if not found then
    found = {}
    for id in string.gmatch(ids, '[^,]+') do found[#found + 1] = spend_prefix .. id .. ':' .. month end
    account_keys[name] = found
  end
  return found
end

-- Adds to the reserved amount of the wallet and the accounts of a reservation. It may have outlived their hashes: they do not go below zero.
local function add_reserved(member, sign)
  local _, org, ids, month, amount = string.match(member, '^([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)$')
  local function add(hash)
    if redis.call('HINCRBY', hash, 'reserved', sign .. amount) < 0 then redis.call('HSET', hash, 'reserved', 0) end
  end
  add(wallet_prefix .. org)
  for _, hash in ipairs(accounts_of(ids, month)) do add(hash) end
end
