import { z } from 'zod'
import { Refused } from './realtime-refused.ts'
import type { TurnLimits } from './realtime-turns.ts'

const mostInstructions = 200_000
const mostTools = 128
const text = z.string().max(mostInstructions)
const format = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('audio/pcm'), rate: z.literal(24_000).default(24_000) }),
  z.strictObject({ type: z.literal('audio/pcmu') }),
  z.strictObject({ type: z.literal('audio/pcma') }),
])
const voice = z.union([z.string().min(1).max(100), z.strictObject({ id: z.string().min(1).max(100) })])
const prompt = z.looseObject({ id: z.string() }).nullable()
const reasoning = z.strictObject({ effort: z.enum(['minimal', 'low', 'medium', 'high', 'xhigh']).optional() })

/** What a session and a single response can both be told. */
export const shared = {
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
    .max(mostTools),
  tool_choice: z.union([
    z.enum(['none', 'auto', 'required']),
    z.strictObject({ type: z.literal('function'), name: z.string().min(1).max(64) }),
  ]),
  max_output_tokens: z.union([z.int().min(1).max(4096), z.literal('inf')]),
  parallel_tool_calls: z.boolean(),
  prompt,
  reasoning,
}
export const spokenIn = z.strictObject({ format: format.optional(), voice: voice.optional() })

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
    ...z.strictObject(shared).partial().shape,
    model: z.string().optional(),
    audio: z
      .strictObject({
        input: input.optional(),
        output: spokenIn.extend({ speed: z.number().min(0.25).max(1.5).optional() }).optional(),
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

/** All settings of a session, those of `session.update` and what a session has from its beginning. */
export type Settings = Required<
  Pick<Update, 'output_modalities' | 'instructions' | 'tools' | 'tool_choice' | 'max_output_tokens' | 'model'>
> &
  Omit<Update, 'type' | 'audio'> & {
    type: 'realtime' | 'transcription'
    audio: { input: Input; output: Output }
  }

/** What a session begins with. */
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
        // A session that only writes down what is said does so from the start.
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

/** The settings after an update. Throws for what cannot change any more: the model, and the voice once it `hasSpoken`. */
export function updated(settings: Settings, update: SettingsUpdate, hasSpoken: boolean): Settings {
  const { audio, ...rest } = update
  if ('model' in update && update.model !== settings.model)
    throw new Refused('invalid_value', `The model of this session is ${settings.model}.`, 'session.model')
  const output = { ...settings.audio.output, ...(audio && 'output' in audio ? audio.output : {}) }
  if (hasSpoken && JSON.stringify(output.voice) !== JSON.stringify(settings.audio.output.voice)) {
    const message = "Cannot update a conversation's voice if assistant audio is present."
    throw new Refused('cannot_update_voice', message, 'session.audio.output.voice')
  }
  return { ...settings, ...rest, audio: { input: { ...settings.audio.input, ...audio?.input }, output } }
}

/** The settings as `session.created` and `session.updated` tell them; `head` is what does not change. */
export function told({ audio, include, ...rest }: Settings, head: object): object {
  const { transcription, noise_reduction, ...heard } = audio.input
  const input = { ...heard, ...(transcription && { transcription }), ...(noise_reduction && { noise_reduction }) }
  const own = { ...head, ...(include && { include }) }
  if (rest.type === 'realtime') return { ...own, object: 'realtime.session', ...rest, audio: { ...audio, input } }
  return { ...own, object: 'realtime.transcription_session', type: rest.type, audio: { input } }
}

/** How long a silence ends a turn where meaning is to be told from it, by how eager the model is. */
const silenceMs = { low: 1_000, medium: 500, auto: 500, high: 250 }

/** When a turn begins and ends; null = the client says so. */
export function turnLimitsOf({ audio: { input } }: Settings): TurnLimits | null {
  const detection = input.turn_detection
  if (!detection) return null
  if (detection.type === 'semantic_vad')
    return { threshold: 0.5, prefixMs: 300, silenceMs: silenceMs[detection.eagerness] }
  const { threshold, prefix_padding_ms: prefixMs, silence_duration_ms } = detection
  return { threshold, prefixMs, silenceMs: silence_duration_ms }
}
