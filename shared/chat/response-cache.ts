import { createHash, createHmac } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Actor, audit, type Changes } from '../io/audit.ts'
import { defineScript } from '../io/lua-script.ts'
import { shardsOf } from '../io/redis-shards.ts'
import type { Policy } from '../keys/policy.ts'
import type { Platform } from '../platform.ts'
import type { UsageEvent } from '../wallet/usage-event.ts'

// Answers that may be served again, in Redis (docs/decisions/response-cache.md). Redis is shared with the wallet: what the cache
// holds is bounded in bytes, for each organisation and in all, and the entries that were used least recently make room.

type CacheServices = Pick<Platform, 'config' | 'redis' | 'sealer' | 'clock' | 'log'>

/** A stored answer. `usage`: what the request log has of the request that made it. */
export type CachedAnswer = {
  id: string
  storedMs: number
  headers: Record<string, string>
  /** The body; of a stream its events. */
  text: string
  usage: Pick<UsageEvent, (typeof keptFields)[number]>
}

/** What an entry keeps of the usage event of its request. */
export const keptFields = [
  ...(['model', 'provider', 'mode', 'finishReason', 'upstreamId', 'estimated'] as const),
  ...(['promptTokens', 'completionTokens', 'cachedTokens', 'reasoningTokens'] as const),
] as const

/** How long a request waits for the cache; then it is served without. */
const maxWaitMs = 100
/** What Redis needs for an entry besides its text, rather too much. */
const entryOverheadBytes = 512

const shared = {
  fixedKeys: { lru: 'cache:lru', sizes: 'cache:sizes' },
  keyPrefixes: { ofOrganisation: 'cache:lru:', entry: 'cache:entry:' },
} as const

/** A member is `<organisation>:<environment>:<digest>`; the field `#` of `sizes` is the total, `#<organisation>` its part. */
const dropMember = `
  local function organisation_of(member) return string.match(member, '^[^:]+') end
  local function drop(member)
    local organisation = organisation_of(member)
    redis.call('ZREM', lru, member)
    redis.call('ZREM', of_organisation .. organisation, member)
    redis.call('DEL', entry .. member)
    local size = redis.call('HGET', sizes, member)
    if not size then return end
    redis.call('HDEL', sizes, member)
    redis.call('HINCRBY', sizes, '#', -size)
    if redis.call('HINCRBY', sizes, '#' .. organisation, -size) <= 0 then redis.call('HDEL', sizes, '#' .. organisation) end
  end`

const putEntry = defineScript({
  name: 'cache-put',
  lua: `${dropMember}
  local organisation = organisation_of(member)
  local size = #text + ${entryOverheadBytes}
  if size > max_organisation_bytes or size > max_bytes then return 0 end
  drop(member)
  local function make_room(field, list, max)
    while tonumber(redis.call('HGET', sizes, field) or 0) + size > max do
      local oldest = redis.call('ZRANGE', list, 0, 0)[1]
      if not oldest then return end
      drop(oldest)
    end
  end
  make_room('#' .. organisation, of_organisation .. organisation, max_organisation_bytes)
  make_room('#', lru, max_bytes)
  redis.call('SET', entry .. member, text, 'PX', ttl_ms)
  redis.call('HSET', sizes, member, size)
  redis.call('HINCRBY', sizes, '#', size)
  redis.call('HINCRBY', sizes, '#' .. organisation, size)
  redis.call('ZADD', lru, now_ms, member)
  redis.call('ZADD', of_organisation .. organisation, now_ms, member)
  return 1`,
  ...shared,
  args: {
    member: 'text',
    text: 'text',
    ttlMs: 'number',
    nowMs: 'number',
    maxBytes: 'number',
    maxOrganisationBytes: 'number',
  },
})

const getEntry = defineScript({
  name: 'cache-get',
  lua: `${dropMember}
  local text = redis.call('GET', entry .. member)
  if not text then drop(member) return false end
  redis.call('ZADD', lru, 'XX', now_ms, member)
  redis.call('ZADD', of_organisation .. organisation_of(member), 'XX', now_ms, member)
  return text`,
  ...shared,
  args: { member: 'text', nowMs: 'number' },
})

const clearSome = defineScript({
  name: 'cache-clear',
  lua: `${dropMember}
  local members = redis.call('ZRANGE', of_organisation .. organisation, 0, limit - 1)
  for _, member in ipairs(members) do drop(member) end
  return #members`,
  ...shared,
  args: { organisation: 'text', limit: 'number' },
})

/** The name of a request in the cache of its organisation and environment: a keyed hash of all that decides its answer. */
export function cacheKeyOf({ sealer }: CacheServices, policy: Policy, parts: readonly string[]): string {
  const secret = sealer.keysFor('response cache')[0]?.value
  const hash = secret === undefined ? createHash('sha256') : createHmac('sha256', secret)
  hash.update(JSON.stringify([accessOf(policy), ...parts]))
  return `${policy.organisationId}:${policy.environment}:${hash.digest('base64url')}`
}

/** What a policy says about who may answer, and about guardrails: keys that differ in it share no answers. */
export function accessOf({ mode, allowlist, deniedTiers, provider, ownKeys, guardrails }: Policy): string {
  const lists = [allowlist, deniedTiers].map(list => list && [...list].sort())
  const own = ownKeys && [ownKeys.mode, ...ownKeys.keys.map(({ id }) => id)]
  return JSON.stringify([mode, ...lists, provider, own, ...(guardrails ? [guardrails] : [])])
}

/** Reads an answer; null if there is none, or if the cache does not answer in time. */
export async function readAnswer(services: CacheServices, member: string): Promise<CachedAnswer | null> {
  const { redis, clock, sealer } = services
  const waiting = new AbortController()
  const late = sleep(maxWaitMs, null, { signal: waiting.signal }).catch(() => null)
  try {
    const call = getEntry(redis, { member, nowMs: clock.now() }, tagOf(services, member))
    const text = await Promise.race([call.catch(() => null), late])
    return typeof text === 'string' ? (JSON.parse(sealer.open(text, member)) as CachedAnswer) : null
  } catch {
    // Sealed with a key that is no longer configured.
    return null
  } finally {
    waiting.abort()
  }
}

/** Stores an answer, in the background. */
export function storeAnswer(services: CacheServices, member: string, answer: CachedAnswer, ttlS: number): void {
  const { redis, clock, sealer, log } = services
  const { maxBytes, maxOrganisationBytes } = services.config.responseCache
  const values = {
    member,
    text: sealer.seal(JSON.stringify(answer), member),
    ttlMs: ttlS * 1_000,
    nowMs: clock.now(),
    maxBytes: Math.floor(maxBytes / shardsOf(redis).all.length),
    maxOrganisationBytes,
  }
  putEntry(redis, values, tagOf(services, member)).catch(error => log.warn({ err: error }, 'an answer was not cached'))
}

/** Entries that are removed by one call of a script. */
const clearedAtOnce = 500
const maxClears = 10_000

/** Removes all cached answers of an organisation, audited; returns how many there were. */
export async function clearAnswers(
  services: Pick<Platform, 'redis' | 'db'>,
  organisation: string,
  actor: Actor,
): Promise<number> {
  const tag = shardsOf(services.redis).of(organisation).tag
  let cleared = 0
  for (let i = 0; i < maxClears; i++) {
    const count = Number(await clearSome(services.redis, { organisation, limit: clearedAtOnce }, tag))
    cleared += count
    if (count < clearedAtOnce) break
  }
  const changes = { answers: [cleared, 0] } satisfies Changes
  await audit(services.db, { organisationId: organisation, actor, action: 'response_cache.cleared', changes })
  return cleared
}

function tagOf({ redis }: Pick<Platform, 'redis'>, member: string): string {
  return shardsOf(redis).of(member.slice(0, member.indexOf(':'))).tag
}
