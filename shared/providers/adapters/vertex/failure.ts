import { isObject } from '../../../base/is-object.ts'
import type { Protocol } from '../../contract.ts'
import { parseJsonOrNull } from '../../toolkit/json-fields.ts'
import { failure as googleFailure } from '../gemini/failure.ts'

/** Classifies the refusals of a partner's model: what Google itself refuses has Google's form, alone or in an array. */
export function partnerFailure(ofPartner: Protocol['failure']): Protocol['failure'] {
  return (status, headers, body) => {
    const json = parseJsonOrNull(body)
    const { error } = Object(Array.isArray(json) ? json[0] : json) as { error?: unknown }
    const isGoogles = isObject(error) && typeof error.status === 'string'
    return isGoogles ? googleFailure(status, headers, body) : ofPartner(status, headers, body)
  }
}
