import type { Clock } from '../../shared/base/time.ts'
import type { Redis } from '../../shared/io/redis.ts'
import { scriptSources } from '../../shared/wallet/scripts.ts'

/** Stands before a script: its `TIME` is what came with the call, and every other command is Redis' own. */
const double = `
local given, server = ARGV[2], redis
local redis = {
  call = function(name, ...)
    if name == 'TIME' then return { math.floor(given / 1000), given % 1000 * 1000 } end
    return server.call(name, ...)
  end
}
`

/** Makes the money scripts of a connection take a test's clock for Redis' own. The scripts themselves are the product's. */
export function useRedisTime(redis: Redis, clock: Clock): void {
  const commands = redis as unknown as Record<string, (packed: string, atMs?: number) => Promise<unknown>>
  for (const { command, lua } of scriptSources()) {
    redis.defineCommand(command, { numberOfKeys: 0, lua: double + lua })
    const call = commands[command]!.bind(redis)
    commands[command] = packed => call(packed, clock.now())
  }
}
