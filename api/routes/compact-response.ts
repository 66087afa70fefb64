import { GatewayError } from '../../shared/base/errors.ts'
import { editBody } from '../../shared/base/json-member.ts'
import { latestUserMessages, maxKeptCharacters } from '../../shared/chat/context-compaction.ts'
import { inputItems, type ResponsesItem, responsesRequest } from '../../shared/kinds/responses.ts'
import type { ResponsesObject } from '../../shared/kinds/responses-answer.ts'
import { refusePrompt } from '../../shared/kinds/stored-responses.ts'
import type { ResponsesTurn } from '../../shared/responses/context.ts'
import { expandTurn } from '../../shared/responses/turn.ts'
import { responsesFeatures } from '../../shared/routing/responses-features.ts'
import { endpointWithoutKoa } from '../endpoint.ts'
import { generationHeaders } from '../schemas/headers.ts'
import { compactedResponse } from '../schemas/responses.ts'
import { runDirect } from './chat.ts'
import { labelHeaders, sessionHeaders } from './request-headers.ts'
import { responseErrors, sharedByResponses, withMemory } from './responses.ts'

const { stream, stream_options, background, store, conversation, context_management } = responsesRequest.shape
/** What a compaction has no use for is not documented, but read like all else, and must be valid. */
const unused = { 'x-internal': true }
const compactRequest = responsesRequest.extend({
  input: responsesRequest.shape.input.nullish(),
  stream: stream.meta(unused),
  stream_options: stream_options.meta(unused),
  background: background.meta(unused),
  store: store.meta(unused),
  conversation: conversation.meta(unused),
  context_management: context_management.meta(unused),
})

/** A conversation compacted to one item: a request whose last item asks for that (`compaction_trigger`). */
export const compactResponse = endpointWithoutKoa({
  ...sharedByResponses,
  path: '/v1/responses/compact',
  operationId: 'compactResponse',
  summary: 'Compact a conversation',
  description:
    'Returns the messages of the user and one `compaction` item, which stands for the whole conversation: send them as `input` instead of it. Models of OpenAI compact by their own means, which only they can read. Every other model writes a summary, which is sealed for your organisation and which any model can continue. Charged as a response.',
  headers: [...sessionHeaders, ...labelHeaders],
  body: compactRequest.meta({ id: 'CompactResponseRequest' }),
  presets: 'responses_count',
  example: { model: 'auto', input: [{ role: 'user', content: 'Hello!' }] },
  answers: {
    200: {
      description: 'The compacted conversation.',
      schema: compactedResponse,
      headers: [...generationHeaders, 'x-gateway-dropped', 'x-gateway-adjusted'],
    },
  },
  errors: [...responseErrors],
  async handle(request) {
    const { services, apiKey, body, raw, requestId, headers, client, logFields } = request
    refusePrompt({ ...body, input: body.input ?? [] })
    await withMemory(request, async held => {
      const sent = { body: { ...body, input: body.input ?? [] }, raw }
      const whole = await expandTurn(services, apiKey, sent, held)
      const items = inputItems(whole.body)
      if (items.length === 0) throw new GatewayError('missing_field', '`input` is required.', { param: 'input' })
      const turn = withTrigger(whole, items)
      const asked = { services, apiKey, ...turn, requestId, headers, client, logFields }
      await runDirect('responses', asked, responsesFeatures(turn.body, turn.raw.length), {
        naming: body,
        turn,
        present: response => compacted(response, items),
      })
    })
  },
})

/** The request that asks for a compaction instead of an answer. */
function withTrigger({ body, raw }: ResponsesTurn, items: readonly ResponsesItem[]): ResponsesTurn {
  const isAsked = items.at(-1)?.type === 'compaction_trigger'
  const input: ResponsesItem[] = isAsked ? [...items] : [...items, { type: 'compaction_trigger' }]
  const removed = { stream: undefined, stream_options: undefined, background: undefined, context_management: undefined }
  const edited = editBody(raw, body, { ...removed, input, store: false })
  const { stream: _, stream_options: __, background: ___, context_management: ____, ...rest } = body
  return { body: { ...rest, input, store: false }, raw: Buffer.from(edited) }
}

function compacted({ id, created_at, output, usage }: ResponsesObject, items: readonly ResponsesItem[]): object {
  const kept = [...keptMessages(items, id), ...output.filter(({ type }) => type === 'compaction')]
  return { id, object: 'response.compaction', created_at, output: kept, usage }
}

/** The latest messages of the user, as items of an answer. */
function keptMessages(items: readonly ResponsesItem[], id: string): object[] {
  const kept = latestUserMessages(items, maxKeptCharacters)
  return kept.map((item, index) => ({
    id: `msg_${id.replace(/^resp_/, '')}_${items.length - kept.length + index + 1}`,
    status: 'completed',
    ...item,
    type: 'message',
    content: typeof item.content === 'string' ? [{ type: 'input_text', text: item.content }] : item.content,
  }))
}
