import { bindScript, defineScript } from '../io/lua-script.ts'
import type { Redis } from '../io/redis.ts'
import { type Shard, type Shards, shardsOf } from '../io/redis-shards.ts'

/** Terminates each field of a packed key (see `admit.lua`). */
export const fieldSeparator = '\x1e'

/** The sorted set with the holds of all jobs of a shard. */
export const jobHolds = 'reservations:jobs'

const files = (...names: string[]) => names.map(name => new URL(`./scripts/${name}.lua`, import.meta.url))

const usageKey = 'usage'
const instancesKey = 'instances'
/** The hash with the number that both stores have (see `StoreGenerations`). */
export const generationKey = 'generation'
const accountPrefixes = { walletPrefix: 'wallet:', spendPrefix: 'spend:' }
const reservationsPrefix = 'reservations:'
const windowPrefix = 'window:'

const admit = defineScript({
  name: 'admit',
  lua: files('time', 'window', 'admit'),
  fixedKeys: { usageKey, instancesKey, cappedKey: 'alerts:capped', storeGenerationKey: generationKey },
  keyPrefixes: {
    ...accountPrefixes,
    reservationsPrefix,
    windowPrefix,
    versionPrefix: 'keyversion:',
    readTokenPrefix: 'keygeneration:',
    tombstonePrefix: 'keytombstone:',
  },
  args: {
    nowMs: 'number',
    instance: 'text',
    maxDurationMs: 'number',
    maxBacklog: 'number',
    atLeast: 'number',
    validSince: 'number',
    requests: {
      key: 'text',
      readToken: 'text',
      month: 'text',
      spend: 'text',
      id: 'text',
      estimatedTokens: 'number',
      fixedNano: 'number',
      picoPerOutputToken: 'number',
      outputTokens: 'number',
      explicit: 'number',
      minTokens: 'number',
      likelyTokens: 'number',
      withoutTokens: 'number',
    },
  },
})

const settle = defineScript({
  name: 'settle',
  lua: files('accounts', 'window', 'settle'),
  fixedKeys: { usageKey },
  runsWhenFull: true,
  keyPrefixes: { ...accountPrefixes, reservationsPrefix, windowPrefix },
  args: {
    instance: 'text',
    settlements: {
      id: 'text',
      organisationId: 'text',
      accounts: 'text',
      month: 'text',
      reservedNano: 'text',
      costNano: 'number',
      tokenBucketUs: 'number',
      sharedTokenBucketUs: 'number',
      tokenDifference: 'number',
      event: 'text',
      rateKey: 'text',
      sharedRateKey: 'text',
    },
  },
})

const post = defineScript({
  name: 'post',
  lua: files('accounts', 'post'),
  fixedKeys: { usageKey, generationKey },
  keyPrefixes: accountPrefixes,
  args: {
    events: { streamId: 'text', organisationId: 'text', accounts: 'text', month: 'text', costNano: 'number' },
    wallets: { organisationId: 'text', balanceNano: 'text', version: 'text', holds: 'text' },
    spends: { account: 'text', month: 'text', spentNano: 'text', version: 'text' },
  },
})

const forget = defineScript({
  name: 'forget',
  lua: files('forget'),
  // By a declared key, a Redis Cluster finds the node.
  fixedKeys: { usageKey },
  keyPrefixes: { spendPrefix: accountPrefixes.spendPrefix },
  args: { spends: { account: 'text', month: 'text' } },
})

const sweep = defineScript({
  name: 'sweep',
  lua: files('accounts', 'time', 'sweep'),
  fixedKeys: { instancesKey, sweeperKey: 'sweeper' },
  keyPrefixes: { ...accountPrefixes, reservationsPrefix },
  args: { nowMs: 'number', deadAfterMs: 'number', maxReleased: 'number' },
})

const hold = defineScript({
  name: 'hold',
  lua: files('accounts', 'hold'),
  fixedKeys: { jobHoldsKey: jobHolds, instancesKey },
  keyPrefixes: { ...accountPrefixes, reservationsPrefix },
  args: { instance: 'text', additions: { member: 'text' }, releases: { member: 'text' } },
})

const beat = defineScript({
  name: 'beat',
  lua: files('time', 'beat'),
  fixedKeys: { instancesKey },
  runsWhenFull: true,
  args: { instance: 'text', alive: 'number' },
})

const generation = defineScript({
  name: 'generation',
  lua: files('time', 'generation'),
  fixedKeys: { generationKey },
  runsWhenFull: true,
  args: { atLeast: 'number', noted: 'number', advanceAfterMs: 'number' },
})

const scripts = { admit, settle, post, forget, sweep, hold, beat, generation }
/** The arguments of each money script, which runs atomically in Redis; the head of its file documents them. */
export type ScriptArguments = { [Name in keyof typeof scripts]: Parameters<(typeof scripts)[Name]>[1] }
/** Each call is about one shard, which must be named where there are several. */
export type ScriptCalls = {
  [Name in keyof ScriptArguments]: (values: ScriptArguments[Name], shard?: Shard) => Promise<unknown>
}
export type Scripts = ScriptCalls & { readonly shards: Shards }

/** The money scripts on a connection. */
export function loadScripts(redis: Redis): Scripts {
  const shards = shardsOf(redis)
  return {
    shards,
    admit: bindScript(admit, redis, shards),
    settle: bindScript(settle, redis, shards),
    post: bindScript(post, redis, shards),
    forget: bindScript(forget, redis, shards),
    sweep: bindScript(sweep, redis, shards),
    hold: bindScript(hold, redis, shards),
    beat: bindScript(beat, redis, shards),
    generation: bindScript(generation, redis, shards),
  }
}
