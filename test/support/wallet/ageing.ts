import type { Redis } from '../../../shared/io/redis.ts'

/** Moves every time that the sweeper compares into the past: heartbeats, its own visits, deadlines of reservations. */
const script = `
for _, key in ipairs(redis.call('KEYS', 'reservations:*')) do
  for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, -ARGV[1], member) end
end
for _, instance in ipairs(redis.call('ZRANGEBYSCORE', 'instances', 1, '+inf')) do
  redis.call('ZINCRBY', 'instances', -ARGV[1], instance)
end
if redis.call('EXISTS', 'sweeper') == 1 then
  for _, field in ipairs({ 'last', 'since' }) do redis.call('HINCRBY', 'sweeper', field, -ARGV[1]) end
end
`

/** Lets time pass for the sweeper of reservations, which knows no clock but Redis' own. */
export async function passForSweeper(redis: Redis, ms: number): Promise<void> {
  await redis.eval(script, 0, ms)
}
