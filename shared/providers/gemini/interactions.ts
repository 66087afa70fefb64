import type { Readable } from 'node:stream'
import type { Usage } from '../../base/usage.ts'
import { ProviderError } from '../contract.ts'
import { at, invalid, optionalNumber, optionalText, text } from '../fields.ts'
import { jsonEvents } from '../json-events.ts'
import { bytesIn } from '../sounds.ts'
import { statusFailure } from './failure.ts'
import type { SoundPiece } from './samples.ts'

/** Google's Interactions API, as the types of @google/genai have it. */
export const interactionsPath = '/v1beta/interactions'

/**
 * The sound of an interaction that is streamed, as it comes. `completed` is called with the whole's JSON, which has its usage
 * but not its sound. Throws a ProviderError: what the stream reports, or `truncated` where it ends before its end.
 */
export async function* soundOfStream(stream: Readable, completed: (interaction: unknown) => void) {
  for await (const { json: event } of jsonEvents(stream, event => typeOf(event) === lastType)) {
    switch (typeOf(event)) {
      case 'step.start': // A step may begin with some of its content.
        yield* soundOfStep(at(event, 'step'))
        break
      case 'step.delta':
        yield* soundIn([at(event, 'delta')])
        break
      case 'error':
        throw statusFailure(at(event, 'error'))
      case lastType: {
        const interaction = at(event, 'interaction')
        assertCompleted(interaction)
        return completed(interaction)
      }
    }
  }
  throw new ProviderError('truncated', 'The provider’s answer ended before its end.')
}

const lastType = 'interaction.completed'
const typeOf = (event: unknown) => optionalText(event, 'event_type')

/** The sound of a whole interaction. Throws a ProviderError where it did not complete, or has none. */
export function soundOfWhole(interaction: unknown): SoundPiece[] {
  const steps = at(interaction, 'steps')
  if (!Array.isArray(steps)) throw invalid('it has no list `steps`')
  const pieces = steps.flatMap(step => [...soundOfStep(step)])
  assertCompleted(interaction)
  if (pieces.length === 0) throw new ProviderError('invalid_response', 'The provider’s answer has no sound.')
  return pieces
}

function* soundOfStep(step: unknown): Iterable<SoundPiece> {
  const error = at(step, 'error')
  if (error) throw statusFailure(error)
  const content = at(step, 'content')
  if (optionalText(step, 'type') === 'model_output' && Array.isArray(content)) yield* soundIn(content)
}

/** The sound of content blocks, and of their deltas, which are alike. */
function* soundIn(blocks: readonly unknown[]): Iterable<SoundPiece> {
  for (const block of blocks) {
    if (optionalText(block, 'type') !== 'audio') continue
    const bytes = bytesIn(optionalText(block, 'data') ?? '')
    if (bytes.length === 0) continue
    const mimeType = optionalText(block, 'mime_type') ?? 'audio/l16'
    yield { bytes, mimeType, rateHz: optionalNumber(block, 'sample_rate'), channels: optionalNumber(block, 'channels') }
  }
}

function assertCompleted(interaction: unknown): void {
  const status = text(interaction, 'status')
  if (status === 'completed') return
  const error = at(interaction, 'errors.0')
  if (error) throw statusFailure(error)
  if (status === 'incomplete' || status === 'requires_continuation')
    throw new ProviderError('truncated', 'The provider’s answer ended before its end.')
  throw new ProviderError('server_error', `The provider’s answer ended as ${status.slice(0, 50)}.`)
}

/** What an interaction counted, in our words; thoughts are part of the output. Null where it did not count. */
export function interactionUsage(interaction: unknown): Usage | null {
  const count = (name: string) => tokens(at(interaction, 'usage'), name)
  const thoughts = count('total_thought_tokens')
  const prompt_tokens = count('total_input_tokens') + count('total_tool_use_tokens')
  const completion_tokens = count('total_output_tokens') + thoughts
  if (prompt_tokens + completion_tokens === 0) return null
  const cached = Math.min(prompt_tokens, count('total_cached_tokens'))
  const audio = Math.min(completion_tokens, audioTokens(at(interaction, 'usage.output_tokens_by_modality')))
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    ...(cached > 0 && { prompt_tokens_details: { cached_tokens: cached } }),
    completion_tokens_details: {
      ...(thoughts > 0 && { reasoning_tokens: thoughts }),
      ...(audio > 0 && { audio_tokens: audio }),
    },
  }
}

function audioTokens(modalities: unknown): number {
  if (!Array.isArray(modalities)) return 0
  return tokens(
    modalities.find(modality => optionalText(modality, 'modality')?.toLowerCase() === 'audio'),
    'tokens',
  )
}

function tokens(counts: unknown, name: string): number {
  const count = optionalNumber(counts, name)
  return count !== null && Number.isSafeInteger(count) && count > 0 ? count : 0
}
