import { z } from 'zod'
import { asText } from '../../../base/as-text.ts'
import { isObject } from '../../../base/is-object.ts'
import { parseJson } from '../../../base/json.ts'
import { validate } from '../../../base/validate.ts'
import { EventError, toRefusal } from './event-error.ts'
import { itemSchema } from './items.ts'
import { audioOutputSchema, settingsUpdate, sharedSchema } from './settings.ts'

const maxItems = 200
const maxMetadata = 16
const id = z.string().min(1).max(512)
const common = { event_id: id.optional() }
const itemReference = z.strictObject({ type: z.literal('item_reference'), id })

const responseOptions = z.strictObject({
  ...z.strictObject(sharedSchema).partial().shape,
  // LiveKit's agents send null for a response that uses the session's instructions.
  instructions: sharedSchema.instructions.nullable().optional(),
  audio: z.strictObject({ output: audioOutputSchema.optional() }).optional(),
  conversation: z.enum(['auto', 'none']).optional(),
  input: z
    .array(z.union([itemReference, itemSchema]))
    .max(maxItems)
    .optional(),
  metadata: z
    .record(z.string().max(64), z.string().max(512))
    .refine(metadata => Object.keys(metadata).length <= maxMetadata, `Give at most ${maxMetadata} pairs.`)
    .nullable()
    .optional(),
})
/** The settings of one response. */
export type ResponseOptions = z.infer<typeof responseOptions>

const schemas = {
  'session.update': z.strictObject({ ...common, type: z.literal('session.update'), session: settingsUpdate }),
  'input_audio_buffer.append': z.strictObject({
    ...common,
    type: z.literal('input_audio_buffer.append'),
    audio: z.string(),
  }),
  'input_audio_buffer.commit': z.strictObject({ ...common, type: z.literal('input_audio_buffer.commit') }),
  'input_audio_buffer.clear': z.strictObject({ ...common, type: z.literal('input_audio_buffer.clear') }),
  'output_audio_buffer.clear': z.strictObject({ ...common, type: z.literal('output_audio_buffer.clear') }),
  'conversation.item.create': z.strictObject({
    ...common,
    type: z.literal('conversation.item.create'),
    previous_item_id: id.nullable().optional(),
    item: itemSchema,
  }),
  'conversation.item.retrieve': z.strictObject({
    ...common,
    type: z.literal('conversation.item.retrieve'),
    item_id: id,
  }),
  'conversation.item.delete': z.strictObject({ ...common, type: z.literal('conversation.item.delete'), item_id: id }),
  'conversation.item.truncate': z.strictObject({
    ...common,
    type: z.literal('conversation.item.truncate'),
    item_id: id,
    content_index: z.int().min(0),
    audio_end_ms: z.int().min(0),
  }),
  'response.create': z.strictObject({
    ...common,
    type: z.literal('response.create'),
    response: responseOptions.optional(),
  }),
  'response.cancel': z.strictObject({ ...common, type: z.literal('response.cancel'), response_id: id.optional() }),
}
type EventType = keyof typeof schemas
export type ClientEvents = { [T in EventType]: z.infer<(typeof schemas)[T]> }
export type ClientEvent = ClientEvents[EventType]

/** Parses a frame's event, and its id if it has one; `event` is an error if it is invalid or cannot be read. */
export function eventOf(frame: Buffer, isBinary: boolean): { eventId: string | null; event: ClientEvent | Error } {
  let eventId: string | null = null
  try {
    if (isBinary) throw new EventError('invalid_json', 'Events are JSON in text frames.')
    const value = parseJson(frame, 'The event')
    if (!isObject(value)) throw new EventError('invalid_json', 'The event must be a JSON object.')
    if (typeof value.event_id === 'string') eventId = value.event_id.slice(0, 512)
    if (value.type === undefined)
      throw new EventError('missing_required_parameter', "Missing required parameter: 'type'.", 'type')
    if (typeof value.type !== 'string' || !Object.hasOwn(schemas, value.type)) throw unknownType(value.type)
    return { eventId, event: validate<ClientEvent>(schemas[value.type as EventType], value, 'The event') }
  } catch (error) {
    return { eventId, event: toRefusal(error) }
  }
}

function unknownType(type: unknown): EventError {
  const supported = Object.keys(schemas).map(name => `'${name}'`)
  const message = `Invalid value: '${asText(type).slice(0, 100)}'. Supported values are: ${supported.join(', ')}.`
  return new EventError('invalid_value', message, 'type')
}
