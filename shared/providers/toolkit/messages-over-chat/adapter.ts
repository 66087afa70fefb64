import { type MessagesRequest, mediaSourceOf, visitBlocks } from '../../../kinds/messages.ts'
import { nameInMessages } from '../../../kinds/messages-members.ts'
import type { Call, DirectAdapter, Target, UpstreamRequest } from '../../contract.ts'
import { OverChatDecoder } from '../over-chat/decoder.ts'
import { estimateTokens } from '../over-chat/estimate.ts'
import { chatCalls, remoteImages } from '../over-chat/translation.ts'
import { inlineDocuments } from '../over-chat/user-parts.ts'
import { unsentMembers, withDropped } from '../request-fields.ts'
import { toMessage } from './answer.ts'
import { toChatRequest } from './request.ts'
import { MessageEventEncoder } from './stream.ts'

/**
 * Serves Messages by a chat adapter: the request, after `simplify`, is translated to a chat request, and the answer back.
 */
export function messagesOverChat(
  chat: DirectAdapter<'chat'>,
  simplify: (body: MessagesRequest) => MessagesRequest = body => body,
): DirectAdapter<'messages'> {
  const asChat = chatCalls<'messages'>(({ body, target, media }) =>
    inlineDocuments(toChatRequest(simplify(body), target), media, 'messages'),
  )
  const { stream } = chat
  return {
    native: false,
    request(call) {
      const request = nameFieldsAsMessages(chat.request(asChat(call)), call.body)
      const dropped = [...unsentMembers('messages', call.body).dropped, ...(call.forwarded?.dropped ?? [])]
      return withDropped(request, [...(request.dropped ?? []), ...dropped])
    },
    remoteMedia: (body, target) => remoteMedia(chat, body, target),
    usage: (json, call) => chat.answer(json, asChat(call)).usage ?? undefined,
    answer: (json, call) => toMessage(chat.answer(json, asChat(call)), call.body.stop_sequences ?? []),
    ...(stream && {
      stream(call: Call<'messages'>) {
        const chatCall = asChat(call)
        const stopSequences = call.body.stop_sequences ?? []
        const options = { stopSequences, estimatedInputTokens: estimateTokens(chatCall.body) }
        return new OverChatDecoder(stream(chatCall), new MessageEventEncoder(options))
      },
    }),
  }
}

/** Documents by URL, whose bytes every chat provider needs, and the images by URL that this one needs as bytes. */
function remoteMedia(chat: DirectAdapter<'chat'>, { model, messages }: MessagesRequest, target: Target): string[] {
  const urls: { images: string[]; documents: string[] } = { images: [], documents: [] }
  visitBlocks(messages, block => {
    const media = mediaSourceOf(block)
    if (media?.type === 'url') urls[`${media.kind}s`].push(media.url)
  })
  return [...urls.documents, ...remoteImages(chat, model, urls.images, target)].filter(url => url !== '')
}

/** A provider request whose dropped and changed fields have the names that the client knows. */
function nameFieldsAsMessages(request: UpstreamRequest, { output_config }: MessagesRequest): UpstreamRequest {
  const { dropped, adjusted, ...rest } = request
  const effort = output_config?.effort == null ? 'thinking' : 'output_config.effort'
  const nameOf = (name: string) => (name === 'reasoning_effort' ? effort : nameInMessages(name))
  // The client did not send that one.
  const namesOf = (names: readonly string[] = []) => names.filter(name => name !== 'safety_identifier').map(nameOf)
  const known = { dropped: namesOf(dropped), adjusted: namesOf(adjusted) }
  return {
    ...rest,
    ...(known.dropped.length > 0 && { dropped: known.dropped }),
    ...(known.adjusted.length > 0 && { adjusted: known.adjusted }),
  }
}
