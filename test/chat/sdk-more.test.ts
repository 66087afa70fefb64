import OpenAI from 'openai'
import { png } from '../../shared/providers/sandbox/media/media.ts'
import { tokenCounts } from '../emulators/gemini.ts'
import { rateLimited, serverError, tokensIn, vectorOf } from '../emulators/openai.ts'
import { chargedNano, expectedNano, saying, startWorld } from '../support/chat/gateway.ts'
import { wav } from '../support/media/sounds.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startWorld)

const sound = wav(20).toString('base64')

test.serial('200 audio in and out on an audio model, whole and streamed', async t => {
  const account = await world.gateway.account()
  const sdk = world.sdk(account.live)
  const body = {
    model: 'gpt-audio-1.5',
    modalities: ['text', 'audio'] as ('text' | 'audio')[],
    audio: { voice: 'alloy', format: 'wav' as const },
    messages: [
      {
        role: 'user' as const,
        content: [
          { type: 'text' as const, text: 'Answer' },
          { type: 'input_audio' as const, input_audio: { data: sound, format: 'wav' as const } },
        ],
      },
    ],
  }
  const { choices } = await sdk.chat.completions.create(body)
  t.is(choices[0]!.message.content, null)
  t.is(choices[0]!.message.audio!.transcript, 'Echo: Answer [input_audio]')
  t.is(Buffer.from(choices[0]!.message.audio!.data, 'base64').toString('latin1', 0, 4), 'RIFF')
  let transcript = ''
  let data = ''
  const streamed = { ...body, audio: { voice: 'alloy', format: 'pcm16' as const }, stream: true as const }
  for await (const chunk of await sdk.chat.completions.create(streamed)) {
    const { audio } = chunk.choices[0]!.delta as { audio?: { transcript?: string; data?: string } }
    transcript += audio?.transcript ?? ''
    data += audio?.data ?? ''
  }
  t.is(transcript, 'Echo: Answer [input_audio]')
  // The same samples, without the header of the file.
  t.is(data, Buffer.from(choices[0]!.message.audio!.data, 'base64').subarray(44).toString('base64'))
  t.true((await chargedNano(world, account)) > 0)
})

for (const stream of [false, true]) {
  test.serial(
    `200 image in and out on an image model, billed as image tokens, ${stream ? 'streamed' : 'whole'}`,
    async t => {
      const account = await world.gateway.account()
      const url = `data:image/png;base64,${png(1).toString('base64')}`
      const content = [
        { type: 'text', text: 'Paint it red' },
        { type: 'image_url', image_url: { url } },
      ]
      const response = await world.gateway.fetch('/v1/chat/completions', {
        key: account.live,
        body: saying('gemini-3.1-flash-image', content, { modalities: ['image', 'text'], stream }),
      })
      const text = await response.text()
      t.is(response.status, 200, text)
      t.regex(text, /"images":\[\{"type":"image_url","image_url":\{"url":"data:image\/png;base64,iVBOR/)
      const usage = {
        prompt_tokens: tokensIn('Paint it red') + tokenCounts.imageInput,
        completion_tokens: tokensIn('Echo: Paint it red') + tokenCounts.imageOutput,
        total_tokens: 0,
        completion_tokens_details: { image_tokens: tokenCounts.imageOutput },
      }
      t.is(await chargedNano(world, account), expectedNano('gemini-3.1-flash-image', usage))
    },
  )
}

test.serial('200 n=2: two choices, whole and streamed, each finished once', async t => {
  for (const model of ['gpt-4.1', 'gemini-3.5-flash']) {
    const account = await world.gateway.account()
    const sdk = world.sdk(account.live)
    const body = { model, n: 2, messages: [{ role: 'user' as const, content: 'Twice' }] }
    const whole = await sdk.chat.completions.create(body)
    t.deepEqual(
      whole.choices.map(({ index, message, finish_reason }) => [index, message.content, finish_reason]),
      [
        [0, 'Echo: Twice', 'stop'],
        [1, 'Echo: Twice', 'stop'],
      ],
    )
    const texts = ['', '']
    const ends: number[] = []
    for await (const { choices } of await sdk.chat.completions.create({ ...body, stream: true })) {
      for (const { index, delta, finish_reason } of choices) {
        texts[index] += delta.content ?? ''
        if (finish_reason) ends.push(index)
      }
    }
    t.deepEqual(texts, ['Echo: Twice', 'Echo: Twice'], model)
    t.deepEqual(ends.sort(), [0, 1], model)
    t.is(await chargedNano(world, account), 2 * expectedNano(model, whole.usage!))
  }
})

test.serial('200 logprobs pass, whole and streamed', async t => {
  const { live } = await world.gateway.account()
  const sdk = world.sdk(live)
  const body = {
    model: 'gpt-4.1',
    logprobs: true,
    top_logprobs: 2,
    messages: [{ role: 'user' as const, content: 'Hi' }],
  }
  const whole = await sdk.chat.completions.create(body)
  t.is(whole.choices[0]!.logprobs!.content!.map(({ token }) => token).join(''), 'Echo: Hi')
  t.is(whole.choices[0]!.logprobs!.content![0]!.top_logprobs.length, 2)
  let told = ''
  for await (const { choices } of await sdk.chat.completions.create({ ...body, stream: true }))
    for (const { token } of choices[0]!.logprobs?.content ?? []) told += token
  t.is(told, 'Echo: Hi')
})

test.serial('200 embeddings: floats, base64 as the SDK asks by default, dimensions, batches', async t => {
  const account = await world.gateway.account()
  const sdk = world.sdk(account.live)
  const model = 'text-embedding-3-small'
  const input = ['one', 'three texts', 'é']
  const expected = input.map(text => vectorOf(text, 8))
  const { data, response } = await sdk.embeddings.create({ model, input, encoding_format: 'float' }).withResponse()
  t.deepEqual(
    data.data.map(({ embedding }) => embedding),
    expected,
  )
  const costNano = expectedNano(model, { ...data.usage, completion_tokens: 0 }, { percent: 2.5 })
  t.like(data.usage, { prompt_tokens: 5, total_tokens: 5, cost: costNano / 1e9 })
  t.is(Number(response.headers.get('x-gateway-cost-usd')), costNano / 1e9)
  t.like(data, { provider: 'openai', object: 'list' })
  t.is(await chargedNano(world, account), costNano)
  const decoded = await sdk.embeddings.create({ model, input })
  t.deepEqual(
    decoded.data.map(({ embedding }) => [...embedding]),
    expected,
  )
  t.is(world.openai.requests.at(-1)!.body.encoding_format, 'base64')
  const short = await sdk.embeddings.create({ model, input: 'x', dimensions: 3, encoding_format: 'float' })
  t.is(short.data[0]!.embedding.length, 3)
  const gemini = await sdk.embeddings.create({ model: 'gemini-embedding-001', input: ['a', 'b'], dimensions: 768 })
  t.deepEqual(
    gemini.data.map(({ embedding, index }) => [embedding.length, index]),
    [
      [768, 0],
      [768, 1],
    ],
  )
  t.true((gemini.usage as { estimated?: boolean }).estimated)
})

test.serial('200 models.list: what configured providers serve, and auto', async t => {
  const { live } = await world.gateway.account()
  const ids: string[] = []
  for await (const { id } of world.sdk(live).models.list()) ids.push(id)
  for (const id of ['auto', 'gpt-5.6-luna', 'claude-haiku-4-5', 'gemini-3.5-flash', 'text-embedding-3-small'])
    t.true(ids.includes(id), id)
  t.false(ids.includes('grok-4.5'), 'its provider has no key here')
})

test.serial('the SDK gets its own error class for each status', async t => {
  const { gateway } = world
  const account = await gateway.account()
  const poor = await gateway.account({ usd: '0' })
  const [scoped, listed] = await Promise.all([
    gateway.key(account.organisationId, 'live', { scopes: 'embeddings' }),
    gateway.key(account.organisationId, 'live', { model_allowlist: ['gpt-4.1'] }),
  ])
  const chat = (key: string, body = saying('gpt-5.6-luna')) =>
    world.sdk(key).chat.completions.create(body as Parameters<OpenAI['chat']['completions']['create']>[0])
  type ErrorClass = new (...args: never[]) => InstanceType<typeof OpenAI.APIError>
  const cases: [Promise<unknown>, ErrorClass, number, string][] = [
    [chat('svc_sk_live_unknownunknownunknownunknown0000'), OpenAI.AuthenticationError, 401, 'invalid_api_key'],
    [chat(scoped), OpenAI.PermissionDeniedError, 403, 'insufficient_scope'],
    [chat(listed), OpenAI.PermissionDeniedError, 403, 'model_not_allowed'],
    [chat(account.live, saying('gpt-nope')), OpenAI.NotFoundError, 404, 'model_not_found'],
    [chat(account.live, saying('gpt-4.1', [{ type: 'nope' }])), OpenAI.BadRequestError, 400, 'invalid_request'],
    [chat(poor.live), OpenAI.APIError, 402, 'insufficient_credits'],
  ]
  for (const [call, type, status, code] of cases) {
    const error = await t.throwsAsync(call, { instanceOf: type })
    t.like(error, { status, code })
    t.truthy((error as InstanceType<typeof OpenAI.APIError>).requestID)
  }
  world.openai.next(serverError, serverError, serverError)
  const failed = await t.throwsAsync(chat(account.live), { instanceOf: OpenAI.InternalServerError })
  t.like(failed, { status: 502, code: 'upstream_error' })
  world.openai.next(rateLimited('70'))
  const limited = await t.throwsAsync(chat(account.live), { instanceOf: OpenAI.InternalServerError })
  t.is((limited as InstanceType<typeof OpenAI.APIError>).headers!.get('retry-after'), '70')
  t.is(await chargedNano(world, account), 0)
})
