import { inResponsesTerms } from '../engine/responses-error.ts'
import { noteUnknownMembers } from '../kinds/request-members.ts'
import { asksToManageContext } from '../kinds/responses.ts'
import { finishReasonOfResponse, itemTexts, responsesUsage, usageOfResponses } from '../kinds/responses-usage.ts'
import { refuseStored } from '../kinds/stored-responses.ts'
import { requestFormats } from '../routing/request-formats.ts'
import { billMessage } from './bill.ts'
import type { ChatFormat } from './chat-format.ts'
import { manageContext } from './context-compaction.ts'
import { failedStream, responsesRelayFor } from './responses-relay.ts'
import { countResponses } from './tokens.ts'

/** OpenAI's Responses. */
export const responsesFormat: ChatFormat<'responses'> = {
  ...requestFormats.responses,
  idPrefix: 'resp',
  operation: 'chat',
  keepAliveFrame: ': keep-alive\n\n',
  events: { areNamed: true, lineEnd: '\n' },
  marksCache: true,
  passesRefusals: false,
  countsOutput: true,
  countsPromptFirst: false,
  noteUnknown: (body, forwarded) => noteUnknownMembers('responses', body, forwarded),
  // Delayed work is reserved once, before it runs.
  prepare: (services, input, client, run) =>
    input.bulk === null && asksToManageContext(input.body) ? manageContext(services, input, client, run) : null,
  refuseStored,
  countPrompt: countResponses,
  billAnswer: (answer, terms) =>
    billMessage(
      responsesFormat,
      answer,
      terms,
      ({ usage, incomplete_details, output = [] }) => ({
        usage: answer.adapter.usage ? answer.adapter.usage(answer.json, answer.call) : usageOfResponses(usage),
        texts: output.flatMap(itemTexts),
        finishReason: finishReasonOfResponse({ incomplete_details, output }),
      }),
      responsesUsage,
    ),
  createRelay: responsesRelayFor,
  inOwnTerms: inResponsesTerms,
  failureEvent: failedStream,
}
