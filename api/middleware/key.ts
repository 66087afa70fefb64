import type { IncomingHttpHeaders } from 'node:http'
import { GatewayError } from '../../shared/base/errors.ts'
import { newId } from '../../shared/base/ids.ts'
import type { Actor } from '../../shared/keys/audit.ts'
import { type ClientSecret, findClientSecret } from '../../shared/keys/client-secrets.ts'
import { findPlaygroundSecret } from '../../shared/keys/playground-secrets.ts'
import type { Known } from '../../shared/keys/policies.ts'
import { allows, authorise, type Scope } from '../../shared/keys/policy.ts'
import { hashSecret, secretKind } from '../../shared/keys/secret.ts'
import type { Services } from '../../shared/services.ts'
import { rateHeaders } from '../../shared/wallet/rates.ts'
import { spenderOf } from '../../shared/wallet/spender.ts'
import { hasRole, type Role } from '../auth/roles.ts'

/** The secret of an `Authorization: Bearer` header; null when it has another form. */
function bearerIn(authorization: string): string | null {
  return /^Bearer +(\S+) *$/i.exec(authorization)?.[1] ?? null
}

/** The secret of an `Authorization: Bearer` header. Throws 401. */
export function bearer(authorization: string | undefined): string {
  if (!authorization)
    throw new GatewayError(
      'missing_api_key',
      'Send your API key as `Authorization: Bearer <key>` or `x-api-key: <key>`.',
    )
  const secret = bearerIn(authorization)
  if (secret === null) throw new GatewayError('invalid_api_key', 'The Authorization header must be `Bearer <key>`.')
  return secret
}

/**
 * The `Authorization` header of a request to /v1, where `x-api-key` is taken as well. If both are there, `x-api-key` counts only
 * if it has the form of one of our secrets and `Authorization` has not.
 */
export function keyHeader({ authorization, 'x-api-key': apiKey }: IncomingHttpHeaders): string | undefined {
  if (typeof apiKey !== 'string' || apiKey === '') return authorization
  if (!authorization) return `Bearer ${apiKey}`
  const secret = bearerIn(authorization)
  const isOurs = secret !== null && secretKind(secret) !== null
  return !isOurs && secretKind(apiKey) !== null ? `Bearer ${apiKey}` : authorization
}

/**
 * The standard key of a request, or the one that a playground secret stands for, allowed to use `scope` (null = any key may).
 * `secret`: the answer will hold one. Throws 401, 403, 503.
 */
export function standardKey(
  services: Services,
  authorization: string | undefined,
  scope: Scope | null,
  options: { secret?: boolean | undefined } = {},
): Known | Promise<Known> {
  const secret = bearer(authorization)
  if (secretKind(secret) !== 'standard') return otherKey(services, secret, scope, options)
  const hash = hashSecret(secret)
  return remembered(services, hash, scope) ?? allowed(services, hash, scope)
}

/** The key that another secret stands for. Throws 401, 403, 503. */
async function otherKey(
  services: Services,
  secret: string,
  scope: Scope | null,
  { secret: makesSecret = false }: { secret?: boolean | undefined },
): Promise<Known> {
  const kind = secretKind(secret)
  if (kind === 'client') throw opensSessions()
  if (kind === 'provisioning')
    throw new GatewayError(
      'wrong_key_type',
      'A provisioning key manages keys and cannot call this route. Use a standard key.',
    )
  if (!kind) throw new GatewayError('invalid_api_key', 'This does not look like an API key of this service.')
  if (makesSecret)
    throw new GatewayError('wrong_key_type', 'A playground secret makes no further secrets. Use a standard key.')
  return allowed(services, await playgroundKeyHash(services, secret), scope)
}

/** The hash of the key that a playground secret stands for, as long as its person may use that key. Throws 401, 503. */
async function playgroundKeyHash(services: Services, value: string): Promise<string> {
  const { keyHash, organisationId, userId, role } = await findPlaygroundSecret(services, value)
  const where = { organisationId_userId: { organisationId, userId } }
  const membership = await services.db.membership.findUnique({ where, select: { role: true } })
  if (membership && hasRole(membership.role as Role, role)) return keyHash
  throw new GatewayError('revoked_api_key', 'Whoever made this playground secret may no longer use its key.')
}

/** Who opens a session: a standard key or what stands for it, or a client secret of one. Throws 401, 403, 503. */
export async function sessionKey(
  services: Services,
  authorization: string | undefined,
): Promise<{ known: Known; secret: ClientSecret | null }> {
  const value = bearer(authorization)
  if (secretKind(value) !== 'client') return { known: await standardKey(services, authorization, '*'), secret: null }
  const secret = await findClientSecret(services, value)
  return { known: await allowed(services, secret.keyHash, '*'), secret }
}

/** The key as it is remembered, where that allows the request: what refuses it has to be confirmed first. */
function remembered({ policies, clock }: Services, hash: string, scope: Scope | null): Known | null {
  const known = policies.recall(hash, scope)
  return known && allows(known.policy, scope, clock.now()) ? known : null
}

async function allowed(services: Services, hash: string, scope: Scope | null): Promise<Known> {
  const known = await services.policies.find(hash, scope)
  return services.policies.decide(known, ({ policy }) => {
    authorise(policy, scope, services.clock.now())
    return known
  })
}

function opensSessions(): GatewayError {
  const message = 'A client secret opens realtime sessions and nothing else. Use a key for this route.'
  return new GatewayError('invalid_api_key', message)
}

/** The organisation of a provisioning key, and who acts with it. Throws 401, 403 for a standard key. */
export async function provisioningKey(
  services: Services,
  authorization: string | undefined,
): Promise<{ organisationId: string; actor: Actor }> {
  const secret = bearer(authorization)
  const kind = secretKind(secret)
  if (kind === 'client') throw opensSessions()
  if (kind === 'standard' || kind === 'playground')
    throw new GatewayError('wrong_key_type', 'This route needs a provisioning key.')
  if (!kind) throw new GatewayError('invalid_api_key', 'This does not look like a provisioning key of this service.')
  const { organisationId, id, prefix } = await services.keys.provisioning(secret)
  return { organisationId, actor: { kind: 'provisioning_key', id, name: prefix } }
}

const free = { estimatedTokens: 0, fixedNano: 0, picoPerOutputToken: 0, outputTokens: 0, explicit: true }

/**
 * Counts a request that costs nothing against its key's limits and gives the rate-limit headers; afterwards `known` has the
 * policy in force. Throws 401, 403, 429, 503.
 */
export async function admitFree(services: Services, known: Known): Promise<Record<string, string>> {
  const { rates } = await services.policies.decide(known, ({ policy, fresh, scope }) => {
    authorise(policy, scope, services.clock.now())
    return services.admission.admit({ ...spenderOf(policy), spendsMoney: false }, fresh, newId('req'), free)
  })
  return rateHeaders(rates)
}
