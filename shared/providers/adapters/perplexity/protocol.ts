import type { Protocol } from '../../contract.ts'
import { fittedChat } from '../../profile/fit-chat.ts'
import { withDropped } from '../../toolkit/request-fields.ts'
import { failure } from '../openai/failure.ts'
import { completionFrom } from './answer.ts'
import { agentRequest } from './request.ts'
import { AgentDecoder } from './stream.ts'

/**
 * Perplexity's Agent API, whose requests and answers resemble OpenAI's Responses. It takes the place of Sonar's chat completions, which
 * ended on 2026-09-27 (docs.perplexity.ai/docs/agent-api/migrate-from-sonar). Why: docs/decisions/perplexity.md.
 */
export const perplexity: Protocol = {
  direct: {
    chat: fittedChat({
      native: false,
      request(call) {
        const { body, dropped } = agentRequest(call)
        return withDropped(
          {
            method: 'POST' as const,
            path: '/v1/agent',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify(body),
          },
          dropped,
        )
      },
      answer: completionFrom,
      stream: call => new AgentDecoder(call),
    }),
  },
  // The list of models takes no key, and nothing else is free.
  failure,
}
