import { GatewayError } from '../../../base/errors.ts'
import { unixNow } from '../../../base/time.ts'
import {
  asksToCompact,
  isItem,
  isMessageItem,
  isPart,
  nameInResponses,
  type ResponsesPart,
  type ResponsesRequest,
} from '../../../kinds/responses.ts'
import { declaredTools } from '../../../kinds/responses-tools.ts'
import type { Call, DirectAdapter, Target, UpstreamRequest } from '../../contract.ts'
import { sealSummary } from '../compaction.ts'
import { OverChatDecoder } from '../over-chat/decoder.ts'
import { estimateTokens } from '../over-chat/estimate.ts'
import { chatCalls, remoteImages } from '../over-chat/translation.ts'
import { inlineDocuments } from '../over-chat/user-parts.ts'
import { unsentMembers, withDropped } from '../request-fields.ts'
import { toResponse } from './answer.ts'
import { CompactionEncoder } from './compaction-encoder.ts'
import { toChatRequest } from './request.ts'
import { type EncoderOptions, type ResponseEncoder, ResponseEventEncoder } from './stream.ts'
import { hostedTools } from './tool-names.ts'

/** Members that chat completions have, though OpenAI's Responses do not take them. */
const penalties: ReadonlySet<string> = new Set(['presence_penalty', 'frequency_penalty'])

/** Serves Responses by a chat adapter: the request is translated to a chat request, and the answer back. */
export function responsesOverChat(chat: DirectAdapter<'chat'>): DirectAdapter<'responses'> {
  const asChat = chatCalls<'responses'>(({ body, target, media, reasoning }) =>
    inlineDocuments(toChatRequest(body, target, reasoning), media, 'input'),
  )
  const { stream } = chat
  return {
    native: false,
    request(call) {
      const request = nameFieldsAsResponses(() => chat.request(asChat(call)))
      const hosted = hostedTools(declaredTools(call.body).map(({ tool }) => tool))
      const unsent = unsentMembers('responses', call.body).dropped.filter(name => !penalties.has(name))
      return withDropped(request, [...(request.dropped ?? []), ...unsent, ...hosted])
    },
    remoteMedia: (body, target) => remoteMedia(chat, body, target),
    usage: (json, call) => chat.answer(json, asChat(call)).usage ?? undefined,
    answer(json, call) {
      const options = optionsOf(call, asChat(call))
      return toResponse(chat.answer(json, asChat(call)), options, encoderOf(call, options))
    },
    ...(stream && {
      stream(call: Call<'responses'>) {
        const chatCall = asChat(call)
        return new OverChatDecoder(stream(chatCall), encoderOf(call, optionsOf(call, chatCall)))
      },
    }),
  }
}

function optionsOf({ body, target }: Call<'responses'>, chatCall: Call<'chat'>): EncoderOptions {
  return {
    request: body,
    model: target.model.id,
    now: unixNow,
    estimatedInputTokens: estimateTokens(chatCall.body),
  }
}

function encoderOf(call: Call<'responses'>, options: EncoderOptions): ResponseEncoder {
  return asksToCompact(call.body)
    ? new CompactionEncoder(options, summary => sealSummary(call, summary))
    : new ResponseEventEncoder(options)
}

/** Files by URL, whose bytes every chat provider needs, and the images by URL that this one needs as bytes. */
function remoteMedia(chat: DirectAdapter<'chat'>, { model, input }: ResponsesRequest, target: Target): string[] {
  if (typeof input === 'string') return []
  const media = input.flatMap((item): ResponsesPart[] => {
    if (isMessageItem(item)) return partsOf(item.content)
    return isItem(item, 'function_call_output') || isItem(item, 'custom_tool_call_output') ? partsOf(item.output) : []
  })
  const files = media.flatMap(part => (isPart(part, 'input_file') && !part.file_data && part.file_url) || [])
  const images = media.flatMap(part => (isPart(part, 'input_image') && part.image_url) || [])
  return [...files, ...remoteImages(chat, model, images, target)]
}

function partsOf(content: string | ResponsesPart[]): ResponsesPart[] {
  return typeof content === 'string' ? [] : content
}

/** A provider request whose dropped and changed fields, and a refusal whose field, have the names that the client knows. */
function nameFieldsAsResponses(create: () => UpstreamRequest): UpstreamRequest {
  try {
    const { dropped, adjusted, ...rest } = create()
    return {
      ...rest,
      ...(dropped && { dropped: dropped.map(nameInResponses) }),
      ...(adjusted && { adjusted: adjusted.map(nameInResponses) }),
    }
  } catch (error) {
    if (!(error instanceof GatewayError) || error.param === null) throw error
    const { code, message, param, metadata, headers } = error
    throw new GatewayError(code, message, {
      param: nameInResponses(param),
      ...(metadata && { metadata }),
      headers,
      cause: error,
    })
  }
}
