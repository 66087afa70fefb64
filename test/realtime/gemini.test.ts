import { GoogleGenAI, type LiveServerMessage, Modality } from '@google/genai'
import type { Deployment } from '../../shared/catalog/schema.ts'
import { gemini } from '../../shared/providers/adapters/gemini/protocol.ts'
import { LiveEmulator, type Turn, usualUsage } from '../emulators/gemini-live.ts'
import type { Frame, ProviderSession } from '../emulators/sessions.ts'
import { eventually } from '../support/gateway.ts'
import { dial, type Listener, spentNano } from '../support/realtime/sessions.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const model = 'gemini-3.1-flash-live-preview'
const setup = JSON.stringify({ setup: { model: `models/${model}` } })
const path = '/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent'
const secret = 'AIza-provider'
const emulator = use(test, () => LiveEmulator.start())
const gateway = useGateway(test, () => ({ GEMINI_API_KEY: secret, GEMINI_BASE_URL: emulator.url, DATABASE_POOL: '3' }))

/** A session as its client has it, with every frame as it came. */
async function open(key: string) {
  const client = dial(gateway, key, model)
  const frames: Frame[] = []
  client.socket.on('message', (data: Buffer, isBinary) => frames.push({ data, isBinary }))
  const before = emulator.provider.sessions.length
  await eventually(() => client.socket.readyState === client.socket.OPEN, 'the session is open')
  await eventually(() => emulator.provider.sessions.length > before, 'the provider has it')
  return { client, frames, provider: emulator.last }
}

async function begun(key: string) {
  const session = await open(key)
  session.client.socket.send(setup)
  await eventually(() => session.client.events.length > 0, 'it is set up')
  return session
}

/** Has turns answered one after the other. */
async function converse(client: Listener, ...turns: Turn[]) {
  emulator.turns(...turns)
  for (const _turn of turns) {
    const before = completed(client)
    client.socket.send('{"realtimeInput":{"text":"Go on."}}')
    await eventually(() => completed(client) > before, 'the turn is complete')
  }
}

function completed({ events }: Listener): number {
  return events.filter(({ serverContent }) => serverContent?.turnComplete).length
}

async function leave(client: Listener, provider: ProviderSession) {
  client.socket.close(1000)
  await eventually(() => provider.closed !== null, 'the provider is left')
}

function spent(account: Parameters<typeof spentNano>[1]): Promise<number> {
  return spentNano({ gateway, services: gateway.services }, account)
}

/**
 * What tokens cost at the shipped prices, in nano-dollars with the margin of 5 %: computed apart from the product. Whole sessions
 * are rounded.
 */
function tokensNano({ text = 0, audio = 0, image = 0, textOut = 0, audioOut = 0 }): number {
  const micro = text * 0.75 + audio * 3 + image * 1 + textOut * 4.5 + audioOut * 12
  return micro * 1_050
}

const usualNano = tokensNano({ text: 101, audio: 42, audioOut: 19 })
const everything = {
  promptTokenCount: 1_000,
  responseTokenCount: 200,
  totalTokenCount: 1_273,
  cachedContentTokenCount: 120,
  toolUsePromptTokenCount: 40,
  thoughtsTokenCount: 33,
  promptTokensDetails: [
    { modality: 'TEXT', tokenCount: 300 },
    { modality: 'AUDIO', tokenCount: 500 },
    { modality: 'VIDEO', tokenCount: 150 },
    { modality: 'IMAGE', tokenCount: 50 },
  ],
  cacheTokensDetails: [
    { modality: 'TEXT', tokenCount: 90 },
    { modality: 'AUDIO', tokenCount: 20 },
    { modality: 'IMAGE', tokenCount: 10 },
  ],
  toolUsePromptTokensDetails: [{ modality: 'TEXT', tokenCount: 40 }],
  responseTokensDetails: [
    { modality: 'TEXT', tokenCount: 20 },
    { modality: 'AUDIO', tokenCount: 180 },
  ],
}
// What was cached has no price of its own: text and pictures of it are text, sound is sound.
const everythingNano = tokensNano({ text: 100 + 250, audio: 500, image: 190, textOut: 53, audioOut: 180 })

test.serial('101: what the SDK sends passes to the byte, and what Google answers, in binary frames', async t => {
  const { live } = await gateway.account()
  const sdk = new GoogleGenAI({ apiKey: 'AIza-own', httpOptions: { baseUrl: emulator.url } })
  let turns = 0
  const direct = await sdk.live.connect({
    model,
    config: {
      responseModalities: [Modality.AUDIO],
      systemInstruction: 'Be brief, “please”.',
      inputAudioTranscription: {},
    },
    callbacks: { onmessage: ({ serverContent }) => void (turns += serverContent?.turnComplete ? 1 : 0) },
  })
  const sent = emulator.last
  direct.sendClientContent({ turns: [{ role: 'user', parts: [{ text: 'Hello' }] }] })
  direct.sendRealtimeInput({
    audio: { mimeType: 'audio/pcm;rate=16000', data: Buffer.alloc(640, 9).toString('base64') },
  })
  direct.sendRealtimeInput({ audioStreamEnd: true })
  await eventually(() => turns === 2, 'both turns are complete')
  direct.close()
  const { client, frames, provider } = await open(live)
  t.is(provider.path, path)
  t.is(provider.headers['x-goog-api-key'], secret)
  t.is([...provider.query].length, 0, 'no key in the address')
  for (const { data, isBinary } of sent.frames) client.socket.send(data, { binary: isBinary })
  await eventually(() => completed(client) === 2, 'both turns are complete')
  t.deepEqual(provider.frames, sent.frames)
  t.true(frames.every(({ isBinary }) => isBinary))
  t.deepEqual(client.events[0], { setupComplete: {} })
  t.is(frames[0]!.data.toString(), '{"setupComplete":{}}')
  await leave(client, provider)
})

test.serial('101: the official SDK holds a session, told the address in place of one of its own', async t => {
  const account = await gateway.account()
  const sdk = new GoogleGenAI({
    vertexai: true,
    httpOptions: {
      baseUrl: `${gateway.url}/v1/realtime?model=${model}`,
      headers: { Authorization: `Bearer ${account.live}` },
    },
  })
  const heard: LiveServerMessage[] = []
  const session = await sdk.live.connect({ model, callbacks: { onmessage: message => void heard.push(message) } })
  session.sendRealtimeInput({ text: 'Hello' })
  await eventually(() => heard.some(({ serverContent }) => serverContent?.turnComplete), 'the turn is complete')
  t.is(emulator.last.events[0].setup.model, `models/${model}`)
  session.close()
  t.is(await spent(account), Math.round(usualNano))
})

const named: [what: string, sent: string, passed: string][] = [
  ['bare', `{"setup":{"model":"${model}"}}`, `{"setup":{"model":"models/${model}"}}`],
  ['ours', `{"setup":{"model":"models/google/${model}"}}`, `{"setup":{"model":"models/${model}"}}`],
  ['of Vertex AI', `{"setup":{"model":"publishers/google/models/${model}"}}`, `{"setup":{"model":"models/${model}"}}`],
  ['left out', '{"setup":{}}', `{"setup":{"model":"models/${model}"}}`],
  [
    'left out among others',
    '{ "setup" : { "tools":[{"functionDeclarations":[{"model":"x"}]}], "n": 1.50 } }',
    `{ "setup" : {"model":"models/${model}", "tools":[{"functionDeclarations":[{"model":"x"}]}], "n": 1.50 } }`,
  ],
  [
    'in escapes, between spaces and other models',
    `{"x":{"model":"a\\"b"},\n "setup" : {"generationConfig":{"model":"no","temperature":1.0},\t"model" :"${model.replace('g', '\\u0067')}" }}`,
    `{"x":{"model":"a\\"b"},\n "setup" : {"generationConfig":{"model":"no","temperature":1.0},\t"model" :"models/${model}" }}`,
  ],
]

test.serial('101: where the model is named otherwise, its bytes change and no others', async t => {
  const { live } = await gateway.account()
  for (const [what, sent, passed] of named) {
    for (const binary of [false, true]) {
      const { client, provider } = await open(live)
      client.socket.send(sent, { binary })
      await eventually(() => client.events.length > 0, 'it is set up')
      t.deepEqual(provider.frames, [{ data: Buffer.from(passed), isBinary: binary }], what)
      // Once it is set up no frame is looked at any more.
      const sound = Buffer.from([0xff, 0, 0x7b])
      client.socket.send(sound, { binary: true })
      await eventually(() => provider.frames.length === 2, 'the next frame came')
      t.deepEqual(provider.frames[1]!.data, sound)
      client.socket.terminate()
    }
  }
})

const refused: [what: string, frame: string, code: number, error: object, reason: object][] = [
  [
    'another model',
    '{"setup":{"model":"models/gemini-9-ultra"}}',
    4403,
    { code: 403, status: 'PERMISSION_DENIED' },
    { reason: 'model_not_allowed', metadata: { param: 'setup.model' } },
  ],
  ...['googleSearch', 'google_search_retrieval', 'fileSearch'].map((tool): (typeof refused)[number] => [
    `a tool without a price, ${tool}`,
    `{"setup":{"model":"models/${model}","tools":[{"functionDeclarations":[]},{"${tool}":{}}]}}`,
    4400,
    { code: 400, status: 'INVALID_ARGUMENT' },
    { reason: 'unsupported_capability', metadata: { param: 'setup.tools' } },
  ]),
  ['no JSON', "{'setup':{}}", 4400, { code: 400, status: 'INVALID_ARGUMENT' }, { reason: 'invalid_json' }],
  [
    'two models',
    `{"setup":{"model":"models/${model}","model":"models/gemini-9-ultra"}}`,
    4400,
    { code: 400, status: 'INVALID_ARGUMENT' },
    { reason: 'invalid_json', metadata: { param: 'model' } },
  ],
]
for (const [what, frame, code, error, reason] of refused) {
  test.serial(`${code} for ${what} in the setup, and Google hears nothing of it`, async t => {
    const account = await gateway.account()
    const { client, provider } = await open(account.live)
    client.socket.send(frame)
    await eventually(() => client.closed !== null, 'it is closed')
    t.is(client.closed!.code, code)
    t.like(client.events.at(-1).error, error)
    t.like(client.events.at(-1).error.details[0], reason)
    t.deepEqual(provider.frames, [])
    t.is(await spent(account), 0)
  })
}

test.serial('101: each answer is charged by what it used of which kind, to the nano-dollar', async t => {
  const account = await gateway.account()
  const { client, provider } = await begun(account.live)
  await converse(client, { usage: everything }, {}, { usage: { ...usualUsage, promptTokenCount: 181 } })
  await leave(client, provider)
  // 38 tokens more, of which no detail says what they are: sound.
  t.is(await spent(account), Math.round(everythingNano + 2 * usualNano + tokensNano({ audio: 38 })))
})

test.serial('101: an answer that calls a tool and the one that follows are charged both', async t => {
  const account = await gateway.account()
  const { client, provider } = await begun(account.live)
  emulator.turns({ tool: { name: 'get_weather', usage: everything } })
  client.socket.send('{"realtimeInput":{"text":"How is the weather?"}}')
  await eventually(() => client.events.some(({ toolCall }) => toolCall), 'the tool is called')
  client.socket.send('{"toolResponse":{"functionResponses":[{"id":"call-1","name":"get_weather","response":{}}]}}')
  await eventually(() => completed(client) === 1, 'the turn is complete')
  await leave(client, provider)
  t.is(await spent(account), Math.round(everythingNano + usualNano))
})

test.serial('101: an answer that is interrupted is charged for what came of it', async t => {
  const account = await gateway.account()
  const { client, provider } = await begun(account.live)
  emulator.turns({ ends: false, usage: everything }, {})
  client.socket.send('{"realtimeInput":{"text":"Tell me a story."}}')
  await eventually(() => client.events.some(({ serverContent }) => serverContent?.modelTurn), 'it speaks')
  client.socket.send('{"clientContent":{"turns":[],"turnComplete":true}}')
  await eventually(() => completed(client) === 2, 'both turns are complete')
  t.true(client.events.some(({ serverContent }) => serverContent?.interrupted))
  await leave(client, provider)
  t.is(await spent(account), Math.round(everythingNano + usualNano))
})

for (const [what, more] of [
  ['an earlier conversation', { sessionResumption: { handle: 'handle-1' } }],
  ['pages that Google reads', { tools: [{ urlContext: {} }] }],
  ['pages that Google reads, in the other spelling', { tools: [{ url_context: {} }] }],
] as const) {
  test.serial(
    `402 for an answer about ${what}, which may fill the context, where the wallet cannot pay for one`,
    async t => {
      // A whole context costs $0.41.
      const { live } = await gateway.account({ usd: '0.3' })
      const { client, provider } = await open(live)
      client.socket.send(JSON.stringify({ setup: { model: `models/${model}`, ...more } }))
      await eventually(() => client.events.some(event => event.setupComplete), 'it is set up')
      const sent = provider.frames.length
      client.socket.send('{"realtimeInput":{"text":"What did I say?"}}')
      await eventually(() => client.events.some(event => event.error), 'it is refused')
      t.is(client.events.find(event => event.error).error.details[0].reason, 'insufficient_credits')
      t.is(provider.frames.length, sent)
      client.socket.terminate()
    },
  )
}

test.serial('101: a resumed conversation has the size that its first answer reports', async t => {
  const account = await gateway.account({ usd: '0.6' })
  const { client } = await open(account.live)
  client.socket.send(JSON.stringify({ setup: { model: `models/${model}`, sessionResumption: { handle: 'handle-1' } } }))
  await eventually(() => client.events.some(event => event.setupComplete), 'it is set up')
  await converse(client, ...Array.from({ length: 3 }, () => ({ usage: usualUsage })))
  t.is(
    client.events.find(event => event.error),
    undefined,
  )
  client.socket.close()
  t.true((await spent(account)) > 0)
})

test.serial('the end that Google gives a session is passed on, and what was used is charged', async t => {
  const account = await gateway.account()
  const { client, provider } = await begun(account.live)
  await converse(client, {})
  provider.send({ goAway: { timeLeft: '2s' } }, { binary: true })
  provider.socket.close(1011, 'Deadline expired.')
  await eventually(() => client.closed !== null, 'it is closed')
  t.deepEqual(client.events.at(-1), { goAway: { timeLeft: '2s' } })
  t.deepEqual(client.closed, { code: 1011, reason: 'Deadline expired.' })
  t.is(await spent(account), Math.round(usualNano))
})

test.serial('a client that leaves in the middle of an answer pays for it', async t => {
  const account = await gateway.account()
  const { client, provider } = await begun(account.live)
  emulator.turns({ ends: false })
  client.socket.send('{"realtimeInput":{"text":"Tell me a story."}}')
  await eventually(() => client.events.some(({ serverContent }) => serverContent?.modelTurn), 'it speaks')
  const heard = provider.frames.length
  client.socket.close(1000)
  await eventually(() => client.closed !== null, 'the client is gone')
  t.is(provider.closed, null, 'Google may say what it owes')
  provider.send({ serverContent: { turnComplete: true }, usageMetadata: everything }, { binary: true })
  await eventually(() => provider.closed !== null, 'the provider is left')
  t.is(provider.frames.length, heard, 'it is told nothing that it might not know')
  t.is(await spent(account), everythingNano)
})

const deployment = { traits: { dialect: 'gemini' } } as unknown as Deployment

function metered(...messages: object[]) {
  const meter = gemini.realtime!(deployment)!.meter()
  const uses = messages.flatMap(message => meter.readUsage(Buffer.from(JSON.stringify(message))))
  return uses.map(use => ('usage' in use ? use.usage : null)!)
}

test('a report that is repeated within one answer counts for what it has more', t => {
  const report = (responseTokenCount: number) => ({
    serverContent: { modelTurn: { parts: [] } },
    usageMetadata: { promptTokenCount: 50, responseTokenCount },
  })
  const end = { serverContent: { turnComplete: true } }
  const told = (usages: ReturnType<typeof metered>) =>
    usages.map(usage => [usage.prompt_tokens, usage.completion_tokens, usage.completion_tokens_details?.audio_tokens])
  t.deepEqual(told(metered(report(10), report(25), report(25), report(20), report(26), end)), [
    [50, 10, 10],
    [0, 15, 15],
    [0, 1, 1],
  ])
  t.deepEqual(told(metered(report(10), end, report(10))), [
    [50, 10, 10],
    [50, 10, 10],
  ])
})

test('no usage from usageMetadata or frames of a wrong form', t => {
  const strange = [
    ...[null, [], 'x', 7, {}, { promptTokenCount: -1 }, { promptTokenCount: 1e300 }, { responseTokenCount: '12' }],
    { promptTokenCount: Number.NaN, promptTokensDetails: 'x' },
  ]
  for (const usageMetadata of strange) t.deepEqual(metered({ usageMetadata }), [], JSON.stringify(usageMetadata))
  const meter = gemini.realtime!(deployment)!.meter()
  for (const frame of ['', 'null', '"usageMetadata"', '{"usageMetadata":', '[{"usageMetadata":{}}]']) {
    t.deepEqual(meter.readUsage(Buffer.from(frame)), [], frame)
  }
  const odd = { promptTokenCount: 5, promptTokensDetails: [null, 1, { modality: 'AUDIO' }, { tokenCount: 9 }] }
  t.is(metered({ usageMetadata: odd })[0]!.prompt_tokens_details!.audio_tokens, 0)
})

test('402 RESOURCE_EXHAUSTED for turns at once that funds do not cover; those that pass are charged in full', async t => {
  const account = await gateway.account({ usd: '0.1' })
  const { client, provider } = await begun(account.live)
  const text = 'x'.repeat(20_000)
  // Each is answered with 15,000 tokens in, 1,000 out.
  const usage = { promptTokenCount: 15_000, responseTokenCount: 1_000, totalTokenCount: 16_000 }
  const texts = { promptTokensDetails: [{ modality: 'TEXT', tokenCount: 15_000 }] }
  emulator.turns(...Array<Turn>(30).fill({ usage: { ...usage, ...texts } }))
  const turn = { clientContent: { turns: [{ role: 'user', parts: [{ text }] }], turnComplete: true } }
  for (let n = 0; n < 30; n++) client.socket.send(JSON.stringify(turn))
  await eventually(() => client.closed !== null || client.events.some(({ error }) => error), 'one is refused')
  const refused = client.events.find(({ error }) => error)
  t.like(refused.error, { code: 402, status: 'RESOURCE_EXHAUSTED' })
  if (client.closed === null) client.socket.close(1000)
  await eventually(() => provider.closed !== null, 'the provider is left')
  const spent = await spentNano({ gateway, services: gateway.services }, account)
  const turns = provider.events.filter(({ clientContent }) => clientContent).length
  t.true(turns > 0 && turns < 30, String(turns))
  t.is(spent, Math.round(turns * (15_000 * 0.75 + 1_000 * 12) * 1.05 * 1_000))
  t.true(spent <= 100_000_000, String(spent))
})
