import { z } from 'zod'
import { responsesItem, responsesRequest } from './responses.ts'

export const maxStreamIdLength = 256

/**
 * `response.create`, by which a client of a WebSocket begins a turn: a request whose `input` may be empty, because the
 * earlier response that it names has the conversation.
 */
export const responseCreate = responsesRequest.extend({
  type: z.literal('response.create'),
  input: z.union([z.string().min(1), z.array(responsesItem).max(100_000)]),
  generate: z.boolean().nullish().describe('False: the turn only adds its input to the conversation.'),
  stream_id: z
    .string()
    .min(1)
    .max(maxStreamIdLength)
    .nullish()
    .describe('Your name of the turn, which each of its events repeats.'),
})
export type ResponseCreate = z.infer<typeof responseCreate>
