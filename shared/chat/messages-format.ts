import { messagesErrorEvent } from '../engine/messages-error.ts'
import { messageTexts } from '../kinds/messages.ts'
import { finishReasonOf, messagesUsage, usageOfMessages } from '../kinds/messages-usage.ts'
import { noteUnknownMembers } from '../kinds/request-members.ts'
import { requestFormats } from '../routing/request-formats.ts'
import { billMessage } from './bill.ts'
import type { ChatFormat } from './chat-format.ts'
import { hasRemoteDocuments, inlineMessagesDocuments, measureMessages } from './measure-request.ts'
import { messagesRelayFor } from './messages-relay.ts'
import { countMessages } from './tokens.ts'

/** Anthropic's Messages. */
export const messagesFormat: ChatFormat<'messages'> = {
  ...requestFormats.messages,
  idPrefix: 'msg',
  operation: 'chat',
  keepAliveFrame: 'event: ping\ndata: {"type": "ping"}\n\n',
  events: { areNamed: true, lineEnd: '\n' },
  marksCache: false,
  passesRefusals: true,
  countsOutput: true,
  countsPromptFirst: true,
  noteUnknown: (body, forwarded) => noteUnknownMembers('messages', body, forwarded),
  batchObstacle: body => (hasRemoteDocuments(body) ? 'refers to files by URL' : null),
  measure: measureMessages,
  inlineDocuments: inlineMessagesDocuments,
  countPrompt: countMessages,
  billAnswer: (answer, terms) =>
    billMessage(
      messagesFormat,
      answer,
      terms,
      ({ usage, content, stop_reason }) => ({
        // A translated answer states zero where its provider stated nothing.
        usage: answer.adapter.usage ? answer.adapter.usage(answer.json, answer.call) : usageOfMessages(usage ?? {}),
        texts: messageTexts(content),
        finishReason: stop_reason && finishReasonOf(stop_reason),
      }),
      messagesUsage,
    ),
  createRelay: messagesRelayFor,
  inOwnTerms: failure => failure,
  failureEvent: ({ requestId }, failure) => messagesErrorEvent(failure, requestId),
}
