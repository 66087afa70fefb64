import { createHash } from 'node:crypto'
import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { dayMs } from '../base/time.ts'
import type { Policy } from '../keys/policy.ts'
import type { Platform } from '../platform.ts'
import type { Avatar, CatalogPage, CatalogQuery, Voice } from '../providers/avatar-catalog.ts'
import { ProviderError } from '../providers/provider-error.ts'
import type { OpenCatalog } from '../providers/upstreams.ts'

type Entries = { avatars: Avatar; voices: Voice }
/** The list request: `type` filters avatars, `language` voices. `nextToken` is one of our own tokens. */
type Listing = { type?: string; language?: string; nextToken: string | null; limit: number }

const freshMs = 10 * 60_000
const staleMs = dayMs
/** Limits of one provider's cached pages in Redis: count and length. */
const maxPages = 200
const maxPageChars = 256 * 1_024

/**
 * Lists one page of the avatars or voices of all providers that serve an avatar model in this environment, provider by
 * provider; those of own provider keys are the organisation's own. Throws a GatewayError: 400 naming `next_token`, `type` or
 * `language`, 502 and 504 when a provider cannot be read and no page of it is cached, 503.
 */
export async function listCatalog<K extends keyof Entries>(
  services: Platform,
  { environment, ownKeys }: Pick<Policy, 'environment' | 'ownKeys'>,
  what: K,
  { nextToken, ...listing }: Listing,
): Promise<CatalogPage<Entries[K]>> {
  const catalogs = services.upstreams.avatarCatalogs(environment, ownKeys)
  const { at, token } = nextToken === null ? { at: 0, token: null } : positionOf(catalogs, nextToken)
  const catalog = catalogs[at]
  if (!catalog) return { data: [], nextToken: null }
  // Those of organisations' accounts are not kept: they would be as many as their keys.
  const isCached = environment !== 'test' && !catalog.ownKeyId
  const query = { ...listing, token }
  const page = isCached ? await readCachedPage(services, catalog, what, query) : await readPage(catalog, what, query)
  const next = page.nextToken === null ? catalogs[at + 1] : catalog
  return { data: page.data, nextToken: next ? tokenOf(next, page.nextToken) : null }
}

const position = z.tuple([z.string(), z.string().max(1_000).nullable()])

function tokenOf(catalog: OpenCatalog, token: string | null): string {
  return Buffer.from(JSON.stringify([placeOf(catalog), token])).toString('base64url')
}

/** The place of a catalog among all, which later pages name. */
function placeOf({ provider, ownKeyId }: OpenCatalog): string {
  return ownKeyId ?? provider
}

/** The position at which a page starts: the provider's index and the provider's own token. Throws 400. */
function positionOf(catalogs: OpenCatalog[], nextToken: string): { at: number; token: string | null } {
  const parsed = position.safeParse(parseJson(Buffer.from(nextToken, 'base64url').toString()))
  const [name, token] = parsed.data ?? [null, null]
  const at = catalogs.findIndex(catalog => placeOf(catalog) === name)
  if (at < 0) throw invalidToken()
  return { at, token }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

function invalidToken(cause?: unknown): GatewayError {
  const message = '`next_token` must be one that the page before answered with, unchanged.'
  return new GatewayError('invalid_request', message, { param: 'next_token', cause })
}

/** Reads a page from the provider. Throws a GatewayError. */
async function readPage<K extends keyof Entries>(
  catalog: OpenCatalog,
  what: K,
  query: CatalogQuery,
): Promise<CatalogPage<Entries[K]>> {
  try {
    return (await catalog[what](query)) as CatalogPage<Entries[K]>
  } catch (error) {
    throw error instanceof ProviderError ? toGatewayError(catalog, query, error) : error
  }
}

/** Returns the cached page for ten minutes, then the provider's; a stale page up to a day old if the provider fails. */
async function readCachedPage<K extends keyof Entries>(
  services: Platform,
  catalog: OpenCatalog,
  what: K,
  query: CatalogQuery,
): Promise<CatalogPage<Entries[K]>> {
  const { redis, clock, log } = services
  const key = `catalog:${what}:${catalog.provider}`
  const field = createHash('sha256')
    .update(JSON.stringify([query.type, query.language, query.token, query.limit]))
    .digest('base64url')
  const cached = parseJson((await redis.hget(key, field)) ?? '') as {
    atMs: number
    page: CatalogPage<Entries[K]>
  } | null
  const ageMs = cached ? clock.now() - cached.atMs : Number.POSITIVE_INFINITY
  if (cached && ageMs < freshMs) return cached.page
  try {
    const page = await readPage(catalog, what, query)
    await cachePage(services, key, field, JSON.stringify({ atMs: clock.now(), page }))
    return page
  } catch (error) {
    if (!(error instanceof GatewayError) || error.status < 500 || !cached || ageMs > staleMs) throw error
    log.warn({ err: error, provider: catalog.provider }, `stale ${what} are shown`)
    return cached.page
  }
}

async function cachePage({ redis }: Platform, key: string, field: string, page: string): Promise<void> {
  if (page.length > maxPageChars) return
  if ((await redis.hlen(key)) >= maxPages) await redis.del(key)
  await redis.multi().hset(key, field, page).pexpire(key, staleMs).exec()
}

/** The error for the client: which provider failed and how, never a secret or a URL. */
function toGatewayError({ provider, ownKeyId }: OpenCatalog, query: CatalogQuery, error: ProviderError): GatewayError {
  if (ownKeyId !== null && error.reason === 'auth')
    return new GatewayError('own_key_refused', `${provider} refused the provider key \`${ownKeyId}\`.`, {
      cause: error,
    })
  if (error.reason === 'invalid_request') {
    if (query.token !== null) return invalidToken(error)
    for (const param of ['type', 'language'] as const)
      if (query[param] !== undefined) return new GatewayError('invalid_request', error.message, { param, cause: error })
  }
  const { status, reason } = error
  const code = reason === 'timeout' ? 'upstream_timeout' : 'upstream_error'
  return new GatewayError(code, 'The provider’s catalog cannot be read now. Try again shortly.', {
    metadata: { attempts: [{ provider, status, reason }] },
    cause: error,
  })
}
