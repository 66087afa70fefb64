import { anthropic } from '../../../shared/providers/adapters/anthropic/protocol.ts'
import { gemini } from '../../../shared/providers/adapters/gemini/protocol.ts'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import { contextOverflows, noOverflows } from '../../emulators/context-overflows.ts'
import { test } from '../../support/test.ts'

const protocols = { openai, anthropic, gemini }
const textOf = (body: unknown) => (typeof body === 'string' ? body : JSON.stringify(body))

for (const { server, protocol, status, body } of contextOverflows) {
  test(`${status} of ${server} for a prompt that is too long is context_length`, t => {
    t.is(protocols[protocol].failure(status, {}, textOf(body)).reason, 'context_length')
  })
}

for (const [server, status, body] of noOverflows) {
  test(`${status} of ${server} is no context overflow`, t => {
    t.not(openai.failure(status, {}, textOf(body)).reason, 'context_length')
  })
}
