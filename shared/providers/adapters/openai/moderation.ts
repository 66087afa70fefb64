import { isObject } from '../../../base/is-object.ts'
import type { ModerationResult } from '../../../kinds/moderation.ts'
import type { SyncAdapter } from '../../contract.ts'
import { invalidResponse } from '../../toolkit/json-fields.ts'

/** `POST /moderations`. It is free. */
export const moderation: SyncAdapter<'moderation'> = {
  async make({ input: { input }, target, signal }, connection) {
    const { upstream_model: model } = target.deployment
    const { json } = await connection.send({ method: 'POST', path: '/moderations', json: { model, input }, signal })
    if (!isObject(json) || !Array.isArray(json.results)) throw invalidResponse('it has no `results`')
    return { model: typeof json.model === 'string' ? json.model : model, results: json.results.map(resultFrom) }
  },
}

function resultFrom(one: unknown): ModerationResult {
  if (isObject(one) && typeof one.flagged === 'boolean' && isObject(one.categories)) return one as ModerationResult
  throw invalidResponse('a result is not flagged either way')
}
