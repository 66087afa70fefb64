import type { Clock } from '../../../shared/base/time.ts'
import type { Redis } from '../../../shared/io/redis.ts'

/** Script prelude: `TIME` returns the time passed as the last argument; every other command is Redis' own. */
const double = `
local given, server = ARGV[#ARGV], redis
local redis = {
  call = function(name, ...)
    if name == 'TIME' then return { math.floor(given / 1000), given % 1000 * 1000 } end
    return server.call(name, ...)
  end
}
`

/**
 * Makes the scripts of a connection take a test's clock for Redis' own, from each script's first call on: call it before the
 * first request. The scripts themselves are the product's.
 */
export function useRedisTime(redis: Redis, clock: Clock): void {
  const commands = redis as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>
  const define = redis.defineCommand.bind(redis)
  redis.defineCommand = (command, { numberOfKeys, lua }) => {
    define(command, { numberOfKeys, lua: double + lua })
    const call = commands[command]!.bind(redis)
    commands[command] = (...args) => call(...args, clock.now())
  }
}
