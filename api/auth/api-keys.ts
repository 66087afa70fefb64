import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { GatewayError } from '../../shared/base/errors.ts'
import { newId } from '../../shared/base/ids.ts'
import { may, type Role } from '../../shared/base/roles.ts'
import { admitRequest } from '../../shared/engine/base-run.ts'
import type { Actor, ActorClient } from '../../shared/io/audit.ts'
import { type ClientSecret, findClientSecret } from '../../shared/keys/client-secrets.ts'
import { findPlaygroundSecret } from '../../shared/keys/playground-secrets.ts'
import type { ResolvedKey } from '../../shared/keys/policies.ts'
import { allows, type Scope } from '../../shared/keys/policy.ts'
import { hashSecret, secretKind } from '../../shared/keys/secret.ts'
import type { Platform } from '../../shared/platform.ts'
import { noCost, rateHeaders, withoutMoney } from '../../shared/wallet/reservation.ts'
import { DialectError } from '../error-response.ts'

/**
 * The token of an `Authorization: Bearer` header; null for other schemes. Quotes around it, as files of environment
 * variables have them, are not part of it.
 */
function matchBearer(authorization: string): string | null {
  return /^Bearer[ \t]+(["']?)(\S+)\1[ \t]*$/i.exec(authorization)?.[2] ?? null
}

/** The token of an `Authorization: Bearer` header. Throws 401. */
export function parseBearer(authorization: string): string {
  const secret = matchBearer(authorization)
  if (secret === null)
    throw new GatewayError('invalid_api_key', 'The Authorization header must have the form `Bearer <key>`.')
  return secret
}

/**
 * The `Authorization` header of a request to /v1, which also accepts `x-api-key`. If both are sent, `x-api-key` counts
 * only if it has the form of one of our secrets and `Authorization` does not.
 */
export function keyHeader({ authorization, 'x-api-key': apiKey }: IncomingHttpHeaders): string | undefined {
  if (typeof apiKey !== 'string' || apiKey === '') return authorization
  const asBearer = `Bearer ${apiKey}`
  if (!authorization) return asBearer
  const isOurs = (header: string) => secretKind(matchBearer(header) ?? '') !== null
  return !isOurs(authorization) && isOurs(asBearer) ? asBearer : authorization
}

/**
 * The header with the key of a request to Google's paths: of `Authorization`, `x-api-key`, `x-goog-api-key`, else `?key=`, in
 * this order. The key is removed from the URL, so that nothing can log it.
 */
export function googleKeyHeader(request: Pick<IncomingMessage, 'headers' | 'url'>): string | undefined {
  const inUrl = takeKey(request)
  const { headers } = request
  const given = keyHeader(headers)
  if (given) return given
  const key = headers['x-goog-api-key'] || inUrl
  return typeof key === 'string' && key !== '' ? `Bearer ${key}` : undefined
}

/** Removes the key from the URL of a request, and returns it; null if there is none. */
function takeKey(request: Pick<IncomingMessage, 'url'>): string | null {
  const [path = '', search] = (request.url ?? '').split('?', 2)
  if (search === undefined) return null
  const query = new URLSearchParams(search)
  const key = query.get('key')
  if (key === null) return null
  query.delete('key')
  request.url = query.size > 0 ? `${path}?${query}` : path
  return key
}

/** What a caller without a key is told. */
const sendKey = {
  standard: 'Send your API key as `Authorization: Bearer <key>` or `x-api-key: <key>`.',
  provisioning: 'Send your provisioning key as `Authorization: Bearer <key>`.',
  socket:
    'Send the key as `Authorization: Bearer <key>` or `x-api-key: <key>`, or from a page as the subprotocol `openai-insecure-api-key.<key>`.',
}
/** Where clients of other APIs send their keys. */
const otherHeaders = ['x-goog-api-key', 'api-key', 'xi-api-key', 'ocp-apim-subscription-key', 'apikey', 'x-auth-token']
const otherParameters = ['key', 'api_key', 'api-key', 'apikey', 'access_token', 'token', 'subscription-key']
const ownPrefix = /^(svc_[sp]k|svc_play|ek)_/

/**
 * The 401 for a request without a key. Says where the key is instead, if it is in another header or in the query, which is
 * read for this message only.
 */
export function missingKeyError(
  { headers, url = '' }: Pick<IncomingMessage, 'headers' | 'url'>,
  access: keyof typeof sendKey,
): GatewayError {
  const header =
    otherHeaders.find(name => headers[name]) ?? Object.keys(headers).find(name => ownPrefix.test(String(headers[name])))
  const query = [...new URLSearchParams(url.split('?', 2)[1])]
  const isInUrl = query.some(([name, value]) => otherParameters.includes(name.toLowerCase()) || ownPrefix.test(value))
  const inUrl = isInUrl ? 'Keys are not accepted in the URL, because URLs are logged. ' : ''
  const message = (header ? `Keys are not accepted as \`${header}\`. ` : inUrl) + sendKey[access]
  // Google's clients show only errors of its format.
  if (headers['x-goog-api-key']) return new DialectError('google', 'missing_api_key', message)
  return new GatewayError('missing_api_key', message)
}

/**
 * Resolves the standard key of a request, or the key behind a playground secret, that may use `scope` (null = any key
 * may). `secret`: the response will contain one. Throws 401, 403, 503.
 */
export function resolveStandardKey(
  services: Platform,
  authorization: string,
  scope: Scope | null,
  options: { secret?: boolean | undefined } = {},
): ResolvedKey | Promise<ResolvedKey> {
  const secret = parseBearer(authorization)
  if (secretKind(secret) !== 'standard') return resolveOtherSecret(services, secret, scope, options)
  const hash = hashSecret(secret)
  return findCachedKey(services, hash, scope) ?? findAllowedKey(services, hash, scope)
}

/** Resolves the key behind another kind of secret. Throws 401, 403, 503. */
async function resolveOtherSecret(
  services: Platform,
  secret: string,
  scope: Scope | null,
  { secret: createsSecret = false }: { secret?: boolean | undefined },
): Promise<ResolvedKey> {
  const kind = secretKind(secret)
  if (kind === 'client') throw clientSecretError()
  if (kind === 'provisioning')
    throw new GatewayError(
      'wrong_key_type',
      'A provisioning key manages keys and cannot call this route. Use a standard key.',
    )
  if (!kind) throw new GatewayError('invalid_api_key', 'This is not a valid API key of this service.')
  if (createsSecret)
    throw new GatewayError('wrong_key_type', 'A playground secret cannot create further secrets. Use a standard key.')
  return findAllowedKey(services, await playgroundKeyHash(services, secret), scope)
}

/** The hash of the key behind a playground secret, as long as its creator may use that key. Throws 401, 503. */
async function playgroundKeyHash(services: Platform, value: string): Promise<string> {
  const { keyHash, organisationId, userId, role } = await findPlaygroundSecret(services, value)
  const permission = role === 'admin' ? 'manage' : 'use'
  const where = { organisationId_userId: { organisationId, userId } }
  const select = { role: true, user: { select: { suspendedAt: true } } } as const
  const membership = await services.db.membership.findUnique({ where, select })
  const mayUse = membership && membership.user.suspendedAt === null && may(membership.role as Role, permission)
  if (mayUse) return keyHash
  throw new GatewayError('revoked_api_key', 'The person who created this playground secret may no longer use its key.')
}

/**
 * Resolves the caller of a session: a standard key, a secret that replaces it, or a client secret. Throws 401, 403,
 * 503.
 */
export async function resolveSessionKey(
  services: Platform,
  authorization: string,
): Promise<{ apiKey: ResolvedKey; secret: ClientSecret | null }> {
  const value = parseBearer(authorization)
  if (secretKind(value) !== 'client')
    return { apiKey: await resolveStandardKey(services, authorization, '*'), secret: null }
  const secret = await findClientSecret(services, value)
  return { apiKey: await findAllowedKey(services, secret.keyHash, '*'), secret }
}

/** Returns the cached key if it allows the request; a rejection has to be confirmed against the store first. */
function findCachedKey({ policies, clock }: Platform, hash: string, scope: Scope | null): ResolvedKey | null {
  const apiKey = policies.findCached(hash, scope)
  return apiKey && allows(apiKey.policy, scope, clock.now()) ? apiKey : null
}

async function findAllowedKey(services: Platform, hash: string, scope: Scope | null): Promise<ResolvedKey> {
  const apiKey = await services.policies.find(hash, scope)
  try {
    return await services.policies.decide(apiKey, () => apiKey)
  } catch (error) {
    if (error instanceof GatewayError) refusedKeys.set(error, apiKey)
    throw error
  }
}

const refusedKeys = new WeakMap<GatewayError, ResolvedKey>()

/** The key that does not allow the request that failed with an error: for the request log. */
export function refusedKeyOf(error: GatewayError): ResolvedKey | undefined {
  return refusedKeys.get(error)
}

function clientSecretError(): GatewayError {
  const message = 'A client secret can only open realtime sessions. Use a key for this route.'
  return new GatewayError('invalid_api_key', message)
}

/** Resolves the organisation of a provisioning key, and the actor, whose request came from `client`. Throws 401, 403 for a standard key. */
export async function resolveProvisioningKey(
  services: Platform,
  authorization: string,
  client: ActorClient,
): Promise<{ organisationId: string; actor: Actor }> {
  const secret = parseBearer(authorization)
  const kind = secretKind(secret)
  if (kind === 'client') throw clientSecretError()
  if (kind === 'standard' || kind === 'playground')
    throw new GatewayError('wrong_key_type', 'This route requires a provisioning key.')
  if (!kind) throw new GatewayError('invalid_api_key', 'This is not a valid provisioning key of this service.')
  const { organisationId, id, prefix } = await services.keys.findProvisioningKey(secret)
  return { organisationId, actor: { kind: 'provisioning_key', id, name: prefix, client } }
}

/**
 * Counts a request without charge against its key's limits and returns the rate-limit headers; afterwards `apiKey` has
 * the current policy. Throws 401, 403, 429, 503.
 */
export async function admitFree(services: Platform, apiKey: ResolvedKey): Promise<Record<string, string>> {
  const { reservation } = await admitRequest(
    services,
    apiKey,
    { id: newId('req') },
    () => ({ maxCost: noCost() }),
    withoutMoney,
  )
  return rateHeaders(reservation.rates)
}
