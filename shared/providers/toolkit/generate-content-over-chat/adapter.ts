import { GatewayError } from '../../../base/errors.ts'
import type { GenerateContentRequest } from '../../../kinds/generate-content.ts'
import { fileKindOf } from '../../../kinds/generate-content-members.ts'
import { nameInGemini } from '../../../kinds/generate-content-names.ts'
import type { Call, DirectAdapter, Target, UpstreamRequest } from '../../contract.ts'
import { OverChatDecoder } from '../over-chat/decoder.ts'
import { estimateTokens } from '../over-chat/estimate.ts'
import { chatCalls, remoteImages } from '../over-chat/translation.ts'
import { inlineDocuments } from '../over-chat/user-parts.ts'
import { unsentMembers, withDropped } from '../request-fields.ts'
import { toGeminiAnswer } from './answer.ts'
import { isOwnSignature } from './reasoning-state.ts'
import { droppedFields, toChatRequest } from './request.ts'
import { GeminiEventEncoder } from './stream.ts'

/**
 * Serves `generateContent` by a chat adapter: the request, after `simplify`, is translated to a chat request, and the answer back.
 */
export function generateContentOverChat(
  chat: DirectAdapter<'chat'>,
  simplify: (body: GenerateContentRequest) => GenerateContentRequest = body => body,
): DirectAdapter<'generate_content'> {
  const asChat = chatCalls<'generate_content'>(({ body, target, media }) =>
    inlineDocuments(toChatRequest(simplify(body), target), media, 'contents'),
  )
  const { stream } = chat
  return {
    native: false,
    request(call) {
      const request = nameFieldsAsGemini(() => chat.request(asChat(call)))
      const unsent = [...unsentMembers('generate_content', call.body).dropped, ...droppedFields(call.body)]
      const shown = withDropped(request, [...(request.dropped ?? []), ...unsent])
      return hasForeignSignature(call.body) ? { ...shown, reasoningDropped: true } : shown
    },
    remoteMedia: (body, target) => remoteMedia(chat, body, target),
    usage: (json, call) => chat.answer(json, asChat(call)).usage ?? undefined,
    answer: (json, call) => toGeminiAnswer(chat.answer(json, asChat(call)), showsThoughts(call.body)),
    ...(stream && {
      stream(call: Call<'generate_content'>) {
        const chatCall = asChat(call)
        const options = { showsThoughts: showsThoughts(call.body), estimatedInputTokens: estimateTokens(chatCall.body) }
        return new OverChatDecoder(stream(chatCall), new GeminiEventEncoder(options))
      },
    }),
  }
}

function showsThoughts({ generationConfig }: GenerateContentRequest): boolean {
  return generationConfig?.thinkingConfig?.includeThoughts === true
}

/** Whether the conversation has signatures of Google's own models, which no other model can read. */
function hasForeignSignature({ contents }: GenerateContentRequest): boolean {
  return contents.some(({ parts }) =>
    parts?.some(({ thoughtSignature: signature }) => signature && !isOwnSignature(signature)),
  )
}

/** Documents by URL, whose bytes every chat provider needs, and the images by URL that this one needs as bytes. */
function remoteMedia(
  chat: DirectAdapter<'chat'>,
  { model, contents }: GenerateContentRequest,
  target: Target,
): string[] {
  const files = contents.flatMap(({ parts = [] }) =>
    parts.flatMap(({ fileData, functionResponse }) => [
      ...(fileData ? [fileData] : []),
      ...(functionResponse?.parts ?? []).flatMap(part => part.fileData ?? []),
    ]),
  )
  const urls = (isImage: boolean) =>
    files.filter(file => (fileKindOf(file.mimeType) === 'image') === isImage).map(({ fileUri }) => fileUri)
  return [...urls(false), ...remoteImages(chat, model, urls(true), target)]
}

/** A provider request whose dropped and changed fields, and a refusal whose field, have the names that the client knows. */
function nameFieldsAsGemini(create: () => UpstreamRequest): UpstreamRequest {
  try {
    const { dropped, adjusted, ...rest } = create()
    return {
      ...rest,
      ...(dropped && { dropped: dropped.map(nameInGemini) }),
      ...(adjusted && { adjusted: adjusted.map(nameInGemini) }),
    }
  } catch (error) {
    if (!(error instanceof GatewayError) || error.param === null) throw error
    const { code, message, param, metadata, headers } = error
    const named = { param: nameInGemini(param), headers, cause: error }
    throw new GatewayError(code, message, metadata ? { ...named, metadata } : named)
  }
}
