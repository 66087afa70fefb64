import { GatewayError } from '../base/errors.ts'
import type { Target } from './contract.ts'
import { findValue, insertMember, replaceValue } from './json-value.ts'

/**
 * A client's first frame with the model as its provider knows it, in the field `model` of the object that `within` names.
 * It may be there already, under that name or under one of ours, or be left out; `bare` takes off what a provider's clients
 * put before a name. Only those bytes change. The same frame where there is no such object. Throws 400 for a frame that is no
 * JSON, 403 `model_not_allowed` where another model is named.
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
