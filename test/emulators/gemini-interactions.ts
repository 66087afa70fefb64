import { sound } from '../support/media/sounds.ts'
import { events, json, type Recorded, type Reply } from './emulator.ts'
import { countTokens } from './gemini.ts'
import { type Json, unknownField } from './slow-work.ts'

/** Google's Interactions API as far as it makes sound: the voices of Gemini 3.8, and Lyria. */

export const voices = [
  ...['Zephyr', 'Puck', 'Charon', 'Kore', 'Fenrir', 'Leda', 'Orus', 'Aoede', 'Callirrhoe', 'Autonoe', 'Enceladus'],
  ...['Iapetus', 'Umbriel', 'Algieba', 'Despina', 'Erinome', 'Algenib', 'Rasalgethi', 'Laomedeia', 'Achernar'],
  ...['Alnilam', 'Schedar', 'Gacrux', 'Pulcherrima', 'Achird', 'Zubenelgenubi', 'Vindemiatrix', 'Sadachbia'],
  ...['Sadaltager', 'Sulafat'],
]
const speakers = ['gemini-3.8-flash-tts', 'gemini-3.8-flash-lite-tts']
const composers = ['lyria-3-clip-preview', 'lyria-3-pro-preview', 'lyria-3.5']
export const tokensPerSecond = 25
/** Songs are shorter than the real ones, which have half a minute at least. */
export const songSeconds = 2
const lyrics = '[Verse]\nLa la la'

const topLevel = [
  ...['model', 'input', 'response_format', 'generation_config', 'system_instruction', 'store', 'stream', 'background'],
  ...['labels', 'safety_settings', 'service_tier', 'tools', 'previous_interaction_id', 'webhook_config'],
]
const settings = [
  ...['speech_config', 'seed', 'temperature', 'top_p', 'max_output_tokens', 'stop_sequences', 'thinking_level'],
  ...['thinking_summaries', 'tool_choice', 'transcription_config', 'video_config'],
]

/** An error as interactions report it: a code in words, no status. */
export function interactionError(status: number, code: string, message: string): Reply {
  return json(status, { error: { message, code } })
}

/** `POST /v1beta/interactions`, whole or streamed. */
export async function interact(request: Recorded): Promise<Reply> {
  const body = request.body
  const fault = faultOf(body)
  if (fault) return interactionError(400, 'invalid_request', fault)
  if (![...speakers, ...composers].includes(body.model))
    return interactionError(404, 'not_found', `Model family '${body.model}' not found.`)
  const isSong = composers.includes(body.model)
  const wrong = isSong ? songFault(body) : speechFault(body)
  if (wrong) return interactionError(400, 'invalid_request', wrong)
  const { content, usage } = await (isSong ? songOf(body) : speechOf(body))
  const interaction = { id: 'v1_emulated', object: 'interaction', model: body.model, ...times }
  if (!body.stream)
    return json(200, { ...interaction, status: 'completed', usage, steps: [{ type: 'model_output', content }] })
  return streamed([
    { event_type: 'interaction.created', interaction: { ...interaction, status: 'in_progress' } },
    { event_type: 'interaction.status_update', interaction_id: interaction.id, status: 'in_progress' },
    { event_type: 'step.start', index: 0, step: { type: 'model_output' } },
    ...content.flatMap(pieces).map(delta => ({ event_type: 'step.delta', index: 0, delta })),
    { event_type: 'step.stop', index: 0 },
    { event_type: 'interaction.completed', interaction: { ...interaction, status: 'completed', usage } },
  ])
}

const times = { created: '2026-11-20T00:00:00Z', updated: '2026-11-20T00:00:01Z' }

/** Events as interactions send them, with the end that names itself; `cut` breaks the connection after the last. */
export function streamed(payloads: Json[], end: 'close' | 'cut' = 'close'): Reply {
  const blocks = payloads.map(payload => `event: ${payload.event_type}\ndata: ${JSON.stringify(payload)}\n\n`)
  return events(end === 'cut' ? blocks : [...blocks, 'event: done\ndata: [DONE]\n\n'], { end })
}

/** Cut where it comes, not between samples. */
const pieceBytes = 4_801

function pieces(block: Json): Json[] {
  if (block.type !== 'audio') return [block]
  const bytes = Buffer.from(block.data, 'base64')
  return Array.from({ length: Math.ceil(bytes.length / pieceBytes) }, (_, i) => ({
    ...block,
    data: bytes.subarray(i * pieceBytes, (i + 1) * pieceBytes).toString('base64'),
  }))
}

async function speechOf(body: Json) {
  const transcript = textOf(body.input)
  const seconds = Math.max(0.2, transcript.length / 15)
  const { mime_type = body.stream ? 'audio/l16' : 'audio/wav', sample_rate = 24_000 } = body.response_format
  const bytes = await sound(mime_type === 'audio/wav' ? 'wav' : 'pcm', seconds)
  const audio = { type: 'audio', mime_type, sample_rate, channels: 1, data: bytes.toString('base64') }
  return { content: [audio], usage: usageOf(countTokens(transcript + styleOf(body.input)), seconds) }
}

async function songOf(body: Json) {
  const bytes = await sound('mp3', songSeconds)
  const audio = { type: 'audio', mime_type: 'audio/mpeg', data: bytes.toString('base64') }
  return {
    content: [{ type: 'text', text: lyrics }, audio],
    usage: usageOf(countTokens(textOf(body.input)), songSeconds),
  }
}

function usageOf(prompt: number, seconds: number) {
  const spoken = Math.ceil(seconds * tokensPerSecond)
  return {
    total_input_tokens: prompt,
    total_output_tokens: spoken,
    total_thought_tokens: 0,
    total_cached_tokens: 0,
    total_tool_use_tokens: 0,
    total_tokens: prompt + spoken,
    input_tokens_by_modality: [{ modality: 'text', tokens: prompt }],
    output_tokens_by_modality: [{ modality: 'audio', tokens: spoken }],
  }
}

function contentOf(input: Json): Json[] {
  if (typeof input === 'string') return [{ type: 'text', text: input }]
  return input.flatMap((step: Json) => step.content)
}

function textOf(input: Json): string {
  return contentOf(input)
    .map(({ text }) => text)
    .join(' ')
}

function styleOf(input: Json): string {
  return contentOf(input)
    .flatMap(({ annotations = [] }) => annotations.map(({ style = '' }: Json) => style))
    .join(' ')
}

function faultOf(body: Json): string | null {
  if (typeof body !== 'object' || body === null) return 'The request body must be JSON.'
  const stranger = unknownField(body, topLevel) ?? unknownField(body.generation_config, settings)
  if (stranger) return `Unknown parameter '${stranger}'.`
  if (typeof body.model !== 'string') return 'Exactly one of model or agent must be set.'
  if (!isInput(body.input)) return 'The input must be text, or steps of the user with text.'
  if (body.stream !== undefined && typeof body.stream !== 'boolean') return "The value of 'stream' must be a boolean."
  if (body.store !== undefined && typeof body.store !== 'boolean') return "The value of 'store' must be a boolean."
  const format = body.response_format ?? { type: 'audio' }
  const odd = unknownField(format, ['type', 'mime_type', 'sample_rate', 'bit_rate', 'delivery'])
  if (odd) return `Unknown parameter 'response_format.${odd}'.`
  return format.type === 'audio' ? null : `A response format of '${format.type}' is not supported by this model.`
}

function isInput(input: Json): boolean {
  if (typeof input === 'string') return input !== ''
  if (!Array.isArray(input) || input.length === 0) return false
  return input.every(
    step =>
      step?.type === 'user_input' &&
      Array.isArray(step.content) &&
      step.content.every(
        (block: Json) => block?.type === 'text' && typeof block.text === 'string' && isAnnotated(block),
      ),
  )
}

function isAnnotated({ annotations = [] }: Json): boolean {
  return annotations.every(
    (annotation: Json) =>
      annotation.type === 'speech_metadata' && !unknownField(annotation, ['type', 'style', 'speaker']),
  )
}

/** `audio/mulaw` and `audio/alaw`, which the real ones know as well, are of no use here. */
const spokenTypes = ['audio/wav', 'audio/l16']

function speechFault({ response_format, generation_config, system_instruction }: Json): string | null {
  if (system_instruction !== undefined) return 'Developer instruction is not enabled for this model.'
  if (!response_format) return 'The model only supports audio output.'
  const { mime_type, sample_rate = 24_000 } = response_format
  if (mime_type !== undefined && !spokenTypes.includes(mime_type))
    return `Audio mime_type ${mime_type} is not supported.`
  if (sample_rate !== 24_000) return `A sample_rate of ${sample_rate} is not emulated.`
  const config = generation_config?.speech_config
  if (!Array.isArray(config)) return 'Expected an array, got object.'
  const [{ voice } = {} as Json] = config
  return voices.includes(voice) ? null : `Voice name ${voice} is not supported.`
}

function songFault({ response_format = {}, generation_config }: Json): string | null {
  if (response_format.mime_type !== undefined) return 'Audio mime_type is not supported in response_format.'
  return generation_config?.speech_config ? 'speech_config is not supported by this model.' : null
}
