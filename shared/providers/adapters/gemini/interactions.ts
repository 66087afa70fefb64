import type { Readable } from 'node:stream'
import type { Usage } from '../../../base/usage.ts'
import { ProviderError } from '../../provider-error.ts'
import { decodeAudio } from '../../toolkit/audio-bytes.ts'
import { jsonEvents } from '../../toolkit/json-events.ts'
import { invalidResponse, readOptionalNumber, readOptionalText, readText, valueAt } from '../../toolkit/json-fields.ts'
import { statusFailure } from './failure.ts'
import type { SoundPiece } from './samples.ts'

/** Google's Interactions API, as typed by @google/genai. */
export const interactionsPath = '/v1beta/interactions'

/**
 * The audio of a streamed interaction. `completed` is called with the final JSON, which has the usage but not the
 * audio. Throws a ProviderError: the stream's own error, or `truncated` where it closes early.
 */
export async function* soundOfStream(stream: Readable, completed: (interaction: unknown) => void) {
  for await (const { json: event } of jsonEvents(stream, event => typeOf(event) === lastType)) {
    switch (typeOf(event)) {
      case 'step.start': // A step may start with some of its content.
        yield* soundOfStep(valueAt(event, 'step'))
        break
      case 'step.delta':
        yield* soundIn([valueAt(event, 'delta')])
        break
      case 'error':
        throw statusFailure(valueAt(event, 'error'))
      case lastType: {
        const interaction = valueAt(event, 'interaction')
        assertCompleted(interaction)
        return completed(interaction)
      }
    }
  }
  throw new ProviderError('truncated', 'The provider’s answer ended before its end.')
}

const lastType = 'interaction.completed'
const typeOf = (event: unknown) => readOptionalText(event, 'event_type')

/** The audio of a complete interaction. Throws a ProviderError if it did not complete, or has none. */
export function soundOfWhole(interaction: unknown): SoundPiece[] {
  const steps = valueAt(interaction, 'steps')
  if (!Array.isArray(steps)) throw invalidResponse('it has no list `steps`')
  const pieces = steps.flatMap(step => [...soundOfStep(step)])
  assertCompleted(interaction)
  if (pieces.length === 0) throw new ProviderError('invalid_response', 'The provider’s answer has no sound.')
  return pieces
}

function* soundOfStep(step: unknown): Iterable<SoundPiece> {
  const error = valueAt(step, 'error')
  if (error) throw statusFailure(error)
  const content = valueAt(step, 'content')
  if (readOptionalText(step, 'type') === 'model_output' && Array.isArray(content)) yield* soundIn(content)
}

/** The audio of content blocks, and of their deltas, which have the same format. */
function* soundIn(blocks: readonly unknown[]): Iterable<SoundPiece> {
  for (const block of blocks) {
    if (readOptionalText(block, 'type') !== 'audio') continue
    const bytes = decodeAudio(readOptionalText(block, 'data') ?? '')
    if (bytes.length === 0) continue
    const mimeType = readOptionalText(block, 'mime_type') ?? 'audio/l16'
    yield {
      bytes,
      mimeType,
      rateHz: readOptionalNumber(block, 'sample_rate'),
      channels: readOptionalNumber(block, 'channels'),
    }
  }
}

function assertCompleted(interaction: unknown): void {
  const status = readText(interaction, 'status')
  if (status === 'completed') return
  const error = valueAt(interaction, 'errors.0')
  if (error) throw statusFailure(error)
  if (status === 'incomplete' || status === 'requires_continuation')
    throw new ProviderError('truncated', 'The provider’s answer ended before its end.')
  throw new ProviderError('server_error', `The provider’s answer ended as ${status.slice(0, 50)}.`)
}

/** Converts an interaction's usage; thoughts are part of the output. Null if there is none. */
export function interactionUsage(interaction: unknown): Usage | null {
  const count = (name: string) => tokens(valueAt(interaction, 'usage'), name)
  const thoughts = count('total_thought_tokens')
  const prompt_tokens = count('total_input_tokens') + count('total_tool_use_tokens')
  const completion_tokens = count('total_output_tokens') + thoughts
  if (prompt_tokens + completion_tokens === 0) return null
  const cached = Math.min(prompt_tokens, count('total_cached_tokens'))
  const audio = Math.min(completion_tokens, audioTokens(valueAt(interaction, 'usage.output_tokens_by_modality')))
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
    modalities.find(modality => readOptionalText(modality, 'modality')?.toLowerCase() === 'audio'),
    'tokens',
  )
}

function tokens(counts: unknown, name: string): number {
  const count = readOptionalNumber(counts, name)
  return count !== null && Number.isSafeInteger(count) && count > 0 ? count : 0
}
