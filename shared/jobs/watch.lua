-- The jobs that wait for their provider, by the time of their next look, in `jobs:watch`.
-- claim  now lease count: gives what is due (member, due time, …) and leases it, so that a crash shows it again
-- put    lease, then member and due time …: the next look of members that are still leased so; one that was woken
--        meanwhile keeps its earlier time
local call, key = redis.call, 'jobs:watch'
if ARGV[1] == 'claim' then
  local due = call('ZRANGEBYSCORE', key, '-inf', ARGV[2], 'WITHSCORES', 'LIMIT', 0, ARGV[4])
  for i = 1, #due, 2 do call('ZADD', key, ARGV[3], due[i]) end
  return due
end
for i = 3, #ARGV, 2 do
  if call('ZSCORE', key, ARGV[i]) == ARGV[2] then call('ZADD', key, ARGV[i + 1], ARGV[i]) end
end
return 0
