import { z } from 'zod'
import { EventError } from './event-error.ts'
import type { TurnLimits } from './turns.ts'

const maxInstructions = 200_000
const maxTools = 128
const text = z.string().max(maxInstructions)
const format = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('audio/pcm'), rate: z.literal(24_000).default(24_000) }),
  z.strictObject({ type: z.literal('audio/pcmu') }),
  z.strictObject({ type: z.literal('audio/pcma') }),
])
const voice = z.union([z.string().min(1).max(100), z.strictObject({ id: z.string().min(1).max(100) })])
const prompt = z.looseObject({ id: z.string() }).nullable()
const reasoning = z.strictObject({ effort: z.enum(['minimal', 'low', 'medium', 'high', 'xhigh']).optional() })

/** The settings that sessions and single responses share. */
export const sharedSchema = {
  output_modalities: z.array(z.enum(['text', 'audio'])).length(1, { error: 'Give one modality: `text` or `audio`.' }),
  instructions: text,
  tools: z
    .array(
      z.strictObject({
        type: z.literal('function', { error: 'The sandbox calls functions only.' }),
        name: z.string().min(1).max(64),
        description: text.optional(),
        parameters: z.record(z.string(), z.unknown()).optional(),
      }),
    )
    .max(maxTools),
  tool_choice: z.union([
    z.enum(['none', 'auto', 'required']),
    z.strictObject({ type: z.literal('function'), name: z.string().min(1).max(64) }),
  ]),
  max_output_tokens: z.union([z.int().min(1).max(4096), z.literal('inf')]),
  parallel_tool_calls: z.boolean(),
  prompt,
  reasoning,
}
export const audioOutputSchema = z.strictObject({ format: format.optional(), voice: voice.optional() })

const turns = { create_response: z.boolean().default(true), interrupt_response: z.boolean().default(true) }
const input = z.strictObject({
  format: format.optional(),
  noise_reduction: z
    .strictObject({ type: z.enum(['near_field', 'far_field']), strength: z.number().optional() })
    .nullable()
    .optional(),
  transcription: z
    .strictObject({
      model: z.string().max(100).optional(),
      language: z.string().max(20).optional(),
      languages: z.array(z.string().max(20)).max(100).optional(),
      prompt: text.optional(),
      keywords: z.array(z.string().max(1_000)).max(1_000).optional(),
      delay: z.enum(['minimal', 'low', 'medium', 'high', 'xhigh']).optional(),
    })
    .nullable()
    .optional(),
  turn_detection: z
    .discriminatedUnion('type', [
      z.strictObject({
        type: z.literal('server_vad'),
        threshold: z.number().min(0).max(1).default(0.5),
        prefix_padding_ms: z.int().min(0).max(5_000).default(300),
        silence_duration_ms: z.int().min(0).max(10_000).default(500),
        idle_timeout_ms: z.int().min(5_000).max(30_000).nullable().default(null),
        ...turns,
      }),
      z.strictObject({
        type: z.literal('semantic_vad'),
        eagerness: z.enum(['low', 'medium', 'high', 'auto']).default('auto'),
        ...turns,
      }),
    ])
    .nullable()
    .optional(),
})
const include = z.array(z.literal('item.input_audio_transcription.logprobs')).nullable().optional()

/** The settings of `session.update`. */
export const settingsUpdate = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('realtime'),
    ...z.strictObject(sharedSchema).partial().shape,
    model: z.string().optional(),
    audio: z
      .strictObject({
        input: input.optional(),
        output: audioOutputSchema.extend({ speed: z.number().min(0.25).max(1.5).optional() }).optional(),
      })
      .optional(),
    include,
    tracing: z
      .union([z.literal('auto'), z.looseObject({})])
      .nullable()
      .optional(),
    truncation: z
      .union([z.enum(['auto', 'disabled']), z.looseObject({ type: z.literal('retention_ratio') })])
      .optional(),
  }),
  z.strictObject({
    type: z.literal('transcription'),
    audio: z.strictObject({ input: input.optional() }).optional(),
    include,
  }),
])
export type SettingsUpdate = z.infer<typeof settingsUpdate>
type Update = Extract<SettingsUpdate, { type: 'realtime' }>
type Input = Required<z.infer<typeof input>>
type Output = Required<NonNullable<NonNullable<Update['audio']>['output']>>

/** All settings of a session: those of `session.update` and the initial ones. */
export type Settings = Required<
  Pick<Update, 'output_modalities' | 'instructions' | 'tools' | 'tool_choice' | 'max_output_tokens' | 'model'>
> &
  Omit<Update, 'type' | 'audio'> & {
    type: 'realtime' | 'transcription'
    audio: { input: Input; output: Output }
  }

/** The initial settings of a session. */
export function newSettings(type: Settings['type'], model: string): Settings {
  return {
    type,
    model,
    output_modalities: ['audio'],
    instructions: 'You are the sandbox: repeat what you hear.',
    tools: [],
    tool_choice: 'auto',
    max_output_tokens: 'inf',
    tracing: null,
    truncation: 'auto',
    prompt: null,
    audio: {
      input: {
        format: { type: 'audio/pcm', rate: 24_000 },
        noise_reduction: null,
        // A transcription session transcribes from the start.
        transcription: type === 'transcription' ? { model } : null,
        turn_detection: {
          type: 'server_vad',
          threshold: 0.5,
          prefix_padding_ms: 300,
          silence_duration_ms: 500,
          idle_timeout_ms: null,
          create_response: true,
          interrupt_response: true,
        },
      },
      output: { format: { type: 'audio/pcm', rate: 24_000 }, voice: 'marin', speed: 1 },
    },
  }
}

/**
 * The settings after an update. Throws for settings that can no longer change: the model, and the voice once it
 * `hasSpoken`.
 */
export function applyUpdate(settings: Settings, update: SettingsUpdate, hasSpoken: boolean): Settings {
  const { audio, ...rest } = update
  if ('model' in update && update.model !== settings.model)
    throw new EventError('invalid_value', `The model of this session is ${settings.model}.`, 'session.model')
  const output = { ...settings.audio.output, ...(audio && 'output' in audio ? audio.output : {}) }
  if (hasSpoken && JSON.stringify(output.voice) !== JSON.stringify(settings.audio.output.voice)) {
    const message = "Cannot update a conversation's voice if assistant audio is present."
    throw new EventError('cannot_update_voice', message, 'session.audio.output.voice')
  }
  return { ...settings, ...rest, audio: { input: { ...settings.audio.input, ...audio?.input }, output } }
}

/** The settings in the format of `session.created` and `session.updated`; `head` is constant. */
export function presentSettings({ audio, include, ...rest }: Settings, head: object): object {
  const { transcription, noise_reduction, ...other } = audio.input
  const input = { ...other, ...(transcription && { transcription }), ...(noise_reduction && { noise_reduction }) }
  const visibleHead = { ...head, ...(include && { include }) }
  if (rest.type === 'realtime')
    return { ...visibleHead, object: 'realtime.session', ...rest, audio: { ...audio, input } }
  return { ...visibleHead, object: 'realtime.transcription_session', type: rest.type, audio: { input } }
}

/** The silence that ends a turn under semantic detection, by the model's eagerness. */
const silenceMs = { low: 1_000, medium: 500, auto: 500, high: 250 }

/** The limits of turn detection; null = the client marks turns. */
export function turnLimitsOf({ audio: { input } }: Settings): TurnLimits | null {
  const detection = input.turn_detection
  if (!detection) return null
  if (detection.type === 'semantic_vad')
    return { threshold: 0.5, prefixMs: 300, silenceMs: silenceMs[detection.eagerness] }
  const { threshold, prefix_padding_ms: prefixMs, silence_duration_ms } = detection
  return { threshold, prefixMs, silenceMs: silence_duration_ms }
}
