import fc from 'fast-check'
import { isListedItem } from '../../shared/kinds/responses-members.ts'
import { startWorld } from '../support/chat/gateway.ts'
import { answerOf } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { casesOf, faultOf, samples, send, translate } from '../support/wallet/file-places.ts'
import { files, items, refusedTypes } from '../support/wallet/file-samples.ts'

const world = use(test, () => startWorld({ ALLOW_PRIVATE_URLS: 'true' }))
const account = use(test, () => world.gateway.account({ usd: '1000' }))

const hi = { role: 'user', content: 'Hi' }
const asking = (...input: object[]) => ({
  model: 'gpt-4o-mini',
  max_output_tokens: 16,
  input,
  provider: { only: ['openai'] },
})
const telling = (...content: object[]) => {
  const messages = [{ role: 'user', content }]
  return { model: 'claude-opus-4-6', max_tokens: 16, messages, provider: { only: ['anthropic'] } }
}

const withImages: Record<string, object[]> = {
  'an image that was generated': Array.from({ length: 4 }, () => items.image_generation_call[0]!),
  'what code drew': [
    {
      ...items.code_interpreter_call[0]!,
      outputs: Array.from({ length: 4 }, () => ({ type: 'image', url: files.image })),
    },
  ],
  'images of a part': [
    { role: 'user', content: Array.from({ length: 4 }, () => ({ type: 'input_image', image_url: files.image })) },
  ],
}
for (const [name, input] of Object.entries(withImages))
  test.serial(`429 for a wallet below the cost of four images: ${name}`, async t => {
    const small = await world.gateway.account({ usd: '0.012' })
    world.openai.reset()
    const answer = await world.gateway.fetch('/v1/responses', { key: small.live, body: asking(...input, hi) })
    t.is(answer.status, 429, await answer.clone().text())
    t.is((await answerOf(answer)).error.code, 'insufficient_quota')
    t.is(world.openai.requests.length, 0)
  })

test.serial('200 without a member that may hold an image nobody counted; the header names it', async t => {
  world.openai.reset()
  const odd = { role: 'user', content: [{ type: 'input_text', text: 'Hi', image_url: files.image, profile_id: 'p' }] }
  const asked = await world.gateway.fetch('/v1/responses', { key: account.live, body: asking(odd) })
  t.is(asked.status, 200, await asked.clone().text())
  t.is(asked.headers.get('x-gateway-dropped'), 'input.content.image_url')
  const newer = [{ role: 'user', content: [{ type: 'input_text', text: 'Hi', profile_id: 'p' }] }]
  t.deepEqual(world.openai.requests[0]!.body.input, newer, 'members that are newer than the gateway pass')
  world.anthropic.reset()
  const text = { type: 'text', text: 'Hi', preview: { type: 'base64', data: files.imageBytes }, emphasis: 'high' }
  const told = await world.gateway.fetch('/v1/messages', { key: account.live, body: telling(text) })
  t.is(told.status, 200, await told.clone().text())
  t.is(told.headers.get('x-gateway-dropped'), 'messages.content.preview')
  t.deepEqual(world.anthropic.requests[0]!.body.messages[0].content, [{ type: 'text', text: 'Hi', emphasis: 'high' }])
})

const refused: [route: string, body: object, param: string][] = [
  [
    '/v1/responses',
    asking({ role: 'user', content: [{ type: 'input_video', video_url: files.link }] }),
    'input.0.content.0.video_url',
  ],
  [
    '/v1/responses',
    asking({ role: 'user', content: [{ type: 'input_image', file_id: 'f' }] }),
    'input.0.content.0.file_id',
  ],
  ['/v1/messages', telling({ type: 'video', source: { type: 'url', url: files.link } }), 'messages.0.content.0.source'],
  [
    '/v1/messages',
    telling({
      type: 'tool_addition',
      tool: { type: 'tool_definition', definition: { type: 'web_search_20260318', name: 'web_search', max_uses: 20 } },
    }),
    'messages.0.content.0.tool.definition',
  ],
]
for (const [route, body, param] of refused)
  test.serial(`400 that names what is not known or not offered: ${param}`, async t => {
    world.anthropic.reset()
    world.openai.reset()
    const answer = await world.gateway.fetch(route, { key: account.live, body })
    t.is(answer.status, 400)
    const { error } = await answerOf(answer)
    t.is(error.param, param)
    t.is(error.code, 'unsupported_capability')
    t.is(world.anthropic.requests.length + world.openai.requests.length, 0)
  })

test('every type of item of OpenAI’s SDK is in the table, or refused', t => {
  for (const type of Object.keys(items)) t.true(isListedItem(type === 'untyped' ? undefined : type), type)
  for (const type of refusedTypes) t.false(isListedItem(type), type)
})

test.serial('200 for every kind of item, block and message, with its own files reserved', async t => {
  for (const sample of samples) {
    const one = { name: sample.name, sample, body: sample.body }
    const sent = await send(world, account, one)
    t.is(sent.status, 200, `${sample.name}: ${sent.param}`)
    t.is(faultOf(one, sent), null)
  }
})

/** One of many cases; test/slow/wallet/files-in-requests.test.ts has all of them. */
const every = 53

test('a file at a place of a request is reserved, not sent, or refused by name', t => {
  const some = samples.flatMap(casesOf).filter((_, index) => index % every === 0)
  const faults = some.flatMap(one => faultOf(one, translate(one)) ?? [])
  t.deepEqual(faults, [])
})

test.serial('a file at a place of a request is reserved, not sent, or refused by name, over HTTP', async t => {
  const cases = samples.flatMap(casesOf)
  await fc.assert(
    fc.asyncProperty(fc.nat(cases.length - 1), async index => {
      const one = cases[index]!
      t.is(faultOf(one, await send(world, account, one)), null)
    }),
    { numRuns: 40, endOnFailure: true },
  )
})
