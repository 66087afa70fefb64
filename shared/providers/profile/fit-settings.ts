import { createHash } from 'node:crypto'
import { type Effort, efforts } from '../../catalog/chat-profile.ts'
import { canReason } from '../../catalog/traits.ts'
import type { ChatRequest } from '../../kinds/chat.ts'
import type { Fitting } from './fitting.ts'

/** Fits the settings of a request: effort, sampling, limits and ids. */
export function fitSettings(fitting: Fitting): void {
  fitEffort(fitting)
  fitSampling(fitting)
  fitStops(fitting)
  fitLimit(fitting)
  fitIds(fitting)
}

/** Where a row names none, of a model that has the setting. */
const usualEfforts: readonly Effort[] = ['none', 'minimal', 'low', 'medium', 'high']

/** The efforts of a model; null where it has no such setting. */
function effortsOf({ profile, target: { deployment, model } }: Fitting): readonly (Effort | 'default')[] | null {
  if (profile.efforts) return profile.efforts
  return canReason(deployment) && model.supported_parameters.includes('reasoning_effort') ? usualEfforts : null
}

/** The accepted effort that is nearest to the wanted one, the lower of two; `none` only if it is wanted. */
export function nearestEffort(
  wanted: Effort | 'default',
  accepted: readonly (Effort | 'default')[],
): Effort | 'default' | undefined {
  if (accepted.includes(wanted)) return wanted
  if (wanted === 'default') return undefined
  if (accepted.includes('default')) return 'default'
  const distance = (one: Effort | 'default') => Math.abs(efforts.indexOf(one as Effort) - efforts.indexOf(wanted))
  const candidates = wanted === 'none' ? accepted : accepted.filter(one => one !== 'none')
  // Efforts are listed from the least to the greatest.
  return candidates.toSorted((a, b) => distance(a) - distance(b))[0]
}

function fitEffort(fitting: Fitting): void {
  const { tools_effort: toolsEffort, effort_off: off } = fitting.profile
  const { reasoning_effort: wanted } = fitting.body
  if (toolsEffort !== undefined && fitting.body.tools) {
    if (wanted == null) fitting.set({ reasoning_effort: toolsEffort })
    else if (wanted !== toolsEffort) fitting.adjust('reasoning_effort', toolsEffort)
    return
  }
  if (wanted == null) return
  const accepted = effortsOf(fitting)
  const sent = accepted && nearestEffort(wanted, accepted)
  if (!accepted) fitting.drop('reasoning_effort')
  else if (sent === 'none' && off === 'thinking')
    fitting.set({ reasoning_effort: undefined, thinking: { type: 'disabled' } } as Partial<ChatRequest>)
  else if (sent === undefined) fitting.set({ reasoning_effort: undefined })
  else if (sent !== wanted) fitting.adjust('reasoning_effort', sent)
}

/** The values of a sampling field that every model accepts, as they are its default. */
const isDefault: Record<string, (value: unknown) => boolean> = {
  temperature: value => value === 1,
  top_p: value => value === 1,
  presence_penalty: value => value === 0,
  frequency_penalty: value => value === 0,
  logprobs: value => value === false,
}
/** What OpenAI's reasoning models refuse while they reason. */
const samplingFields =
  'temperature top_p presence_penalty frequency_penalty logprobs top_logprobs logit_bias stop'.split(' ')

function fitSampling(fitting: Fitting): void {
  const { sampling, refused_fields: refused } = fitting.profile
  if (refused) for (const field of refused) dropField(fitting, field)
  if (sampling === 'default' && fitting.body.reasoning_effort !== 'none')
    for (const field of samplingFields) if (!holdsDefault(fitting.body, field)) dropField(fitting, field)
  if (sampling === 'none') for (const field of ['temperature', 'top_p']) dropField(fitting, field)
  // The usual rule of providers and SDKs: the temperature counts.
  if (sampling === 'one' && fitting.body.temperature != null) dropField(fitting, 'top_p')
}

function holdsDefault(body: ChatRequest, field: string): boolean {
  return isDefault[field]?.((body as Record<string, unknown>)[field]) === true
}

/** Leaves a field out; names it if its value asks for something. */
function dropField(fitting: Fitting, field: string): void {
  const value = (fitting.body as Record<string, unknown>)[field]
  if (value === undefined) return
  if (value === null || holdsDefault(fitting.body, field)) fitting.set({ [field]: undefined })
  else fitting.drop(field)
}

/** Blank sequences are refused by Anthropic ("each stop sequence must contain non-whitespace"). */
function fitStops(fitting: Fitting): void {
  const { stop } = fitting.body
  const { blank_stops: takesBlank, max_stops: maxStops } = fitting.profile
  if (stop == null) return
  const given = typeof stop === 'string' ? [stop] : stop
  const kept = given.filter(one => one !== '' && (takesBlank || one.trim() !== '')).slice(0, maxStops)
  if (kept.length === given.length && given.length > 0) return
  fitting.set({ stop: kept.length > 0 ? kept : undefined })
  if (given.some(one => one !== '')) fitting.dropped.push('stop')
}

/** A model ends an answer at its own limit in any case; providers refuse a higher one. */
function fitLimit(fitting: Fitting): void {
  const { model, deployment } = fitting.target
  const limit = deployment.traits?.max_output_tokens ?? model.max_output_tokens
  if (limit === null) return
  for (const field of ['max_completion_tokens', 'max_tokens'] as const) {
    const wanted = fitting.body[field]
    if (wanted != null && wanted > limit) fitting.adjust(field, limit)
  }
}

/** Ids of the caller: a long one is sent as its digest, so that equal ids stay equal. */
function fitIds(fitting: Fitting): void {
  const { max_id_characters: maxCharacters } = fitting.profile
  if (maxCharacters === undefined) return
  const fields: Record<string, unknown> = fitting.body
  for (const field of ['user', 'safety_identifier', 'prompt_cache_key']) {
    const id = fields[field]
    if (typeof id === 'string' && id.length > maxCharacters)
      fitting.set({ [field]: createHash('sha256').update(id).digest('hex') })
  }
}
