import test from 'ava'
import type { Exchange } from './support/recording-proxy.ts'
import { differencesOf, shapesOf } from './support/shapes.ts'

const exchange: Exchange = {
  method: 'POST',
  path: '/v1/messages?beta=true',
  headers: { 'anthropic-beta': 'one-2026-01-01' },
  body: { model: 'm', tools: [{ type: 'custom', input_schema: { properties: { path: {} } } }] },
  status: 200,
  answer: '{}',
}

test('what a newer client asks in another way: a beta, a member, a choice and a refusal, but no content', t => {
  const newer = {
    ...exchange,
    headers: { 'anthropic-beta': 'one-2026-01-01,two-2026-02-02' },
    body: { model: 'n', thinking: { type: 'adaptive' }, tools: [{ type: 'custom', input_schema: { required: [] } }] },
    status: 400,
    answer: '{"error":{"message":"no"}}',
  }
  const route = 'POST /v1/messages?beta'
  t.deepEqual(differencesOf(shapesOf([exchange]), shapesOf([newer])), [
    `+ ${route} refused: 400 no`,
    `+ ${route} thinking`,
    `+ ${route} thinking.type`,
    `+ ${route} thinking.type=adaptive`,
    '+ beta two-2026-02-02',
  ])
})
