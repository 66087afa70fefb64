import { z } from 'zod'
import { parseJson } from '../../base/json.ts'
import { validate } from '../../base/validate.ts'
import { isObject } from '../openai/json.ts'
import { givenItem } from './realtime-items.ts'
import { Refused, refusalOf } from './realtime-refused.ts'
import { settingsUpdate, shared, spokenIn } from './realtime-settings.ts'

const mostItems = 200
const mostMetadata = 16
const id = z.string().min(1).max(512)
const common = { event_id: id.optional() }
const itemReference = z.strictObject({ type: z.literal('item_reference'), id })

const responseOptions = z.strictObject({
  ...z.strictObject(shared).partial().shape,
  audio: z.strictObject({ output: spokenIn.optional() }).optional(),
  conversation: z.enum(['auto', 'none']).optional(),
  input: z
    .array(z.union([itemReference, givenItem]))
    .max(mostItems)
    .optional(),
  metadata: z
    .record(z.string().max(64), z.string().max(512))
    .refine(metadata => Object.keys(metadata).length <= mostMetadata, `Give at most ${mostMetadata} pairs.`)
    .nullable()
    .optional(),
})
/** What one response is told of its own. */
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
    item: givenItem,
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
export type EventType = keyof typeof schemas
export type ClientEvents = { [T in EventType]: z.infer<(typeof schemas)[T]> }
export type ClientEvent = ClientEvents[EventType]

/** A frame's event, and its id as far as it has one; `event` is a refusal where it is none. */
export function eventOf(frame: Buffer, isBinary: boolean): { eventId: string | null; event: ClientEvent | Refused } {
  let eventId: string | null = null
  try {
    if (isBinary) throw new Refused('invalid_json', 'Events are JSON in text frames.')
    const value = parseJson(frame, 'The event')
    if (!isObject(value)) throw new Refused('invalid_json', 'The event must be a JSON object.')
    if (typeof value.event_id === 'string') eventId = value.event_id.slice(0, 512)
    if (value.type === undefined)
      throw new Refused('missing_required_parameter', "Missing required parameter: 'type'.", 'type')
    if (typeof value.type !== 'string' || !Object.hasOwn(schemas, value.type)) throw unknownType(value.type)
    return { eventId, event: validate<ClientEvent>(schemas[value.type as EventType], value, 'The event') }
  } catch (error) {
    return { eventId, event: refusalOf(error) }
  }
}

function unknownType(type: unknown): Refused {
  const supported = Object.keys(schemas).map(name => `'${name}'`)
  const message = `Invalid value: '${String(type).slice(0, 100)}'. Supported values are: ${supported.join(', ')}.`
  return new Refused('invalid_value', message, 'type')
}
