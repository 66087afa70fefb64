import { operatorActor } from '../../../shared/io/audit.ts'
import { newKey } from '../../../shared/keys/key-requests.ts'
import { call, type KeyOptions } from '../../support/gateway.ts'
import type { Cell } from '../cell.ts'

/** A chat that is answered at once. */
export function ask({ stack }: Cell, key: string): Promise<Response> {
  const body = { model: 'coin', max_tokens: 100, messages: [{ role: 'user', content: 'How late is it?' }] }
  return call(stack.url, '/v1/chat/completions', { key, body })
}

/** A further key, of the cell's account or another organisation. */
export async function keyOf(
  { stack, account }: Cell,
  fields: KeyOptions,
  organisationId = account.organisationId,
): Promise<string> {
  const request = newKey.parse({ ...fields, environment: 'live' })
  return (await stack.services.keys.create(organisationId, request, operatorActor)).secret
}
