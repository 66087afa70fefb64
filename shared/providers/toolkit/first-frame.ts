import { GatewayError } from '../../base/errors.ts'
import type { Target } from '../contract.ts'
import { findValue, insertMember, replaceValue } from './json-value.ts'

/**
 * Writes the provider's model name into a client's first frame, in the field `model` of the object `within`. The field
 * may hold that name, one of our names, or be absent; `bare` strips a prefix that the provider's clients add. All other
 * bytes stay unchanged, as does a frame without such an object. Throws 400 for a frame that is not JSON, 403
 * `model_not_allowed` where another model is named.
 */
export function withModel(
  frame: Buffer,
  within: string,
  { model, deployment }: Pick<Target, 'model' | 'deployment'>,
  { upstreamName = deployment.upstream_model, bare = (name: string) => name } = {},
): Buffer {
  const object = findValue(frame, [within], 'The frame')
  if (typeof object?.value !== 'object' || object.value === null || Array.isArray(object.value)) return frame
  const named = findValue(frame, [within, 'model'], 'The frame')
  const text = JSON.stringify(upstreamName)
  if (!named) return insertMember(frame, object, 'model', text)
  const name = named.value
  if (name === upstreamName) return frame
  const names = [model.id, `${model.owned_by}/${model.id}`, deployment.upstream_model].map(one => one.toLowerCase())
  const isOurs = typeof name === 'string' && names.includes(bare(name).toLowerCase())
  if (isOurs || name === null) return replaceValue(frame, named, text)
  throw new GatewayError(
    'model_not_allowed',
    `This session was opened with the model \`${model.id}\`: name that one in \`${within}.model\`, or leave it out.`,
    { param: `${within}.model` },
  )
}
