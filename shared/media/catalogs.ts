import { createHash } from 'node:crypto'
import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import type { Avatar, CatalogPage, CatalogQuery, Voice } from '../providers/avatar-catalog.ts'
import { ProviderError } from '../providers/contract.ts'
import type { Environment, OpenCatalog } from '../providers/upstreams.ts'
import type { Services } from '../services.ts'

type Entries = { avatars: Avatar; voices: Voice }
/** What is listed: `type` narrows avatars, `language` voices. `nextToken` is one of ours. */
export type Listing = { type?: string; language?: string; nextToken: string | null; limit: number }

const freshMs = 10 * 60_000
const staleMs = 24 * 3_600_000
/** What one provider's pages may take in Redis: so many, so long. */
const mostPages = 200
const mostPageChars = 256 * 1_024

/**
 * One page of the avatars or voices of every provider that serves an avatar model for this environment, one provider after
 * the other. Throws a GatewayError: 400 naming `next_token`, `type` or `language`, 502 and 504 when a provider cannot be
 * read and no page of it is kept, 503.
 */
export async function listCatalog<K extends keyof Entries>(
  services: Services,
  environment: Environment,
  what: K,
  { nextToken, ...listing }: Listing,
): Promise<CatalogPage<Entries[K]>> {
  const catalogs = services.upstreams.avatarCatalogs(environment)
  const { at, token } = nextToken === null ? { at: 0, token: null } : placeOf(catalogs, nextToken)
  const catalog = catalogs[at]
  if (!catalog) return { data: [], nextToken: null }
  const read = environment === 'test' ? readPage<K> : keptPage<K>
  const page = await read(services, catalog, what, { ...listing, token })
  const following = page.nextToken === null ? catalogs[at + 1] : catalog
  return { data: page.data, nextToken: following ? tokenOf(following, page.nextToken) : null }
}

const place = z.tuple([z.string(), z.string().max(1_000).nullable()])

function tokenOf({ provider }: OpenCatalog, token: string | null): string {
  return Buffer.from(JSON.stringify([provider, token])).toString('base64url')
}

/** Where a page starts: which provider, and that one's own token. Throws 400. */
function placeOf(catalogs: OpenCatalog[], nextToken: string): { at: number; token: string | null } {
  const parsed = place.safeParse(parse(Buffer.from(nextToken, 'base64url').toString()))
  const [name, token] = parsed.data ?? [null, null]
  const at = catalogs.findIndex(({ provider }) => provider === name)
  if (at < 0) throw badToken()
  return { at, token }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

function badToken(cause?: unknown): GatewayError {
  const message = '`next_token` must be one that the page before answered with, unchanged.'
  return new GatewayError('invalid_request', message, { param: 'next_token', cause })
}

/** A page as the provider gives it now. Throws a GatewayError. */
async function readPage<K extends keyof Entries>(
  _services: Services,
  catalog: OpenCatalog,
  what: K,
  query: CatalogQuery,
): Promise<CatalogPage<Entries[K]>> {
  try {
    return (await catalog[what](query)) as CatalogPage<Entries[K]>
  } catch (error) {
    throw error instanceof ProviderError ? failureOf(catalog, query, error) : error
  }
}

/** A page from Redis for ten minutes; then the provider's, or while it cannot be read the one kept for a day. */
async function keptPage<K extends keyof Entries>(
  services: Services,
  catalog: OpenCatalog,
  what: K,
  query: CatalogQuery,
): Promise<CatalogPage<Entries[K]>> {
  const { redis, clock, log } = services
  const key = `catalog:${what}:${catalog.provider}`
  const field = createHash('sha256')
    .update(JSON.stringify([query.type, query.language, query.token, query.limit]))
    .digest('base64url')
  const kept = parse((await redis.hget(key, field)) ?? '') as { atMs: number; page: CatalogPage<Entries[K]> } | null
  const ageMs = kept ? clock.now() - kept.atMs : Number.POSITIVE_INFINITY
  if (kept && ageMs < freshMs) return kept.page
  try {
    const page = await readPage(services, catalog, what, query)
    await keep(services, key, field, JSON.stringify({ atMs: clock.now(), page }))
    return page
  } catch (error) {
    if (!(error instanceof GatewayError) || error.status < 500 || !kept || ageMs > staleMs) throw error
    log.warn({ err: error, provider: catalog.provider }, `stale ${what} are shown`)
    return kept.page
  }
}

async function keep({ redis }: Services, key: string, field: string, page: string): Promise<void> {
  if (page.length > mostPageChars) return
  if ((await redis.hlen(key)) >= mostPages) await redis.del(key)
  await redis.multi().hset(key, field, page).pexpire(key, staleMs).exec()
}

/** What a client is told: who failed and how, never a secret or an address. */
function failureOf({ provider }: OpenCatalog, query: CatalogQuery, error: ProviderError): GatewayError {
  if (error.reason === 'invalid_request') {
    if (query.token !== null) return badToken(error)
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
