import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  AudioInterface,
  Conversation,
} from '@elevenlabs/elevenlabs-js/api/resources/conversationalAi/conversation/index.js'
import { ElevenLabsClient } from '@elevenlabs/elevenlabs-js/Client.js'
import { WebSocket } from 'ws'
import { modelRow } from '../../shared/catalog/schema.ts'
import { agent, startConversations } from '../emulators/elevenlabs-conversation.ts'
import type { Frame } from '../emulators/sessions.ts'
import { startXaiRealtime } from '../emulators/xai-realtime.ts'
import { eventually, startGateway } from '../support/gateway.ts'
import { chargesOf, dial, spentNano } from '../support/realtime/sessions.ts'
import { test } from '../support/test.ts'
import { use, useFolder, useGateway, useStores } from '../support/use.ts'
import { testClock } from '../support/wallet/money.ts'

const voice = 'grok-voice'
/** An agent as an operator adds it. */
const houseAgent = modelRow.parse({
  id: 'house-agent',
  name: 'House agent',
  type: 'realtime',
  owned_by: 'acme',
  created: 0,
  description: '',
  context_length: null,
  max_output_tokens: null,
  input_modalities: ['audio'],
  output_modalities: ['audio'],
  supported_parameters: [],
  quality: null,
  expires_on: null,
  price_source: 'the operator',
  price_as_of: '2026-11-20',
  providers: [
    {
      provider: 'elevenlabs',
      upstream_model: agent,
      price: { unit: 'minute', usd: '0.12' },
      traits: { dialect: 'elevenlabs' },
    },
  ],
})
const strangeAgent = {
  ...houseAgent,
  id: 'strange-agent',
  providers: [{ ...houseAgent.providers[0]!, upstream_model: 'agent & co' }],
}

const clock = testClock('2026-11-10T12:00:00Z')
const folder = useFolder(test)
const file = join(folder, 'catalog.json')
test.before(async () => {
  await writeFile(file, JSON.stringify({ models: [houseAgent, strangeAgent] }))
})
const stores = useStores(test)
const xai = use(test, startXaiRealtime)
const conversations = use(test, startConversations)
const gateway = useGateway(
  test,
  () => ({
    XAI_API_KEY: 'xai-provider',
    XAI_BASE_URL: `${xai.url}/v1`,
    ELEVENLABS_API_KEY: 'xi-provider',
    ELEVENLABS_BASE_URL: conversations.url,
    MODEL_CATALOG: file,
    DATABASE_POOL: '3',
  }),
  { stores, clock },
)

function spent(account: Parameters<typeof spentNano>[1]): Promise<number> {
  return spentNano({ gateway, services: gateway.services }, account)
}

/** A session of xAI's, with every frame as it came. */
async function speak(key: string) {
  const client = dial(gateway, key, voice)
  const frames: Frame[] = []
  let id = ''
  client.socket.removeAllListeners('message')
  client.socket.on('upgrade', ({ headers }) => {
    id = String(headers['x-generation-id'])
  })
  client.socket.on('message', (data: Buffer, isBinary) => {
    frames.push({ data, isBinary })
    if (!isBinary) client.events.push(JSON.parse(data.toString()))
  })
  await eventually(() => client.events.length > 0, 'the session is there')
  const say = (event: object) => client.socket.send(JSON.stringify(event))
  const done = () => client.events.filter(({ type }) => type === 'response.done').length
  return { client, frames, say, done, id }
}

test.serial('101: sound passes in binary frames, in order and unchanged, between events in text', async t => {
  const account = await gateway.account()
  const { client, frames, say, done } = await speak(account.live)
  t.is(xai.last.path, '/v1/realtime')
  t.is(xai.last.query.get('model'), 'grok-voice-latest')
  t.is(xai.last.headers.authorization, 'Bearer xai-provider')
  say({ type: 'session.update', session: { audio: { output: { format: { transport: 'binary' } } } } })
  const sounds = [Buffer.alloc(960, 1), Buffer.from([]), Buffer.from([0xff, 0xfe, 0x00]), Buffer.alloc(70_000, 2)]
  for (const sound of sounds) client.socket.send(sound)
  say({ type: 'response.create' })
  await eventually(() => done() === 1, 'the answer is there')
  const heard = xai.last.frames.filter(({ isBinary }) => isBinary)
  t.deepEqual(
    heard.map(({ data }) => data),
    sounds,
  )
  t.deepEqual(
    frames.map(({ isBinary }) => isBinary),
    [false, false, false, true, true, true, true, false],
  )
  t.deepEqual(
    frames.filter(({ isBinary }) => isBinary).map(({ data }) => data),
    sounds,
  )
  say({ type: 'input_audio_buffer.append', audio: 'AAAA' })
  client.socket.close(1000)
  await eventually(() => xai.last.closed !== null, 'the provider is left')
  t.is(xai.last.closed!.code, 1000)
})

test.serial('101: a session without a usage is paid by its minutes, in parts and to the millisecond', async t => {
  const account = await gateway.account()
  const { client, say, done, id } = await speak(account.live)
  say({ type: 'input_audio_buffer.append', audio: 'AAAA' })
  say({ type: 'response.create' })
  await eventually(() => done() === 1, 'the answer is there')
  clock.advance(30_000)
  // Half a minute at $0.08, with the margin of 5 %.
  const [part] = await chargesOf(gateway.services, { id }, 1)
  t.is(part!.nano, 42_000_000)
  clock.advance(7_321)
  client.socket.close(1000)
  t.is(await spent(account), (37_321 * 80_000_000 * 1.05) / 60_000)
})

test.serial('502 with an error event and 1011 when the provider refuses the API key', async t => {
  const broken = await startGateway(stores, {
    XAI_API_KEY: 'invalid',
    XAI_BASE_URL: `${xai.url}/v1`,
    DATABASE_POOL: '3',
  })
  try {
    const { live } = await broken.account()
    const client = dial(broken, live, voice)
    t.deepEqual(await client.end(), { code: 1011, error: 'upstream_error' })
  } finally {
    await broken.close()
  }
})

class Microphone extends AudioInterface {
  readonly heard: Buffer[] = []
  say: (audio: Buffer) => void = () => {}
  start(say: (audio: Buffer) => void): void {
    this.say = say
  }
  stop(): void {}
  output(audio: Buffer): void {
    this.heard.push(audio)
  }
  interrupt(): void {}
}

/** The official SDK's conversation, led to another address. */
async function converse(address: string, headers: Record<string, string>) {
  const microphone = new Microphone()
  const told = {
    answers: [] as string[],
    transcripts: [] as string[],
    latencies: [] as number[],
    ended: null as unknown,
  }
  const conversation = new Conversation({
    client: new ElevenLabsClient({ apiKey: 'xi_own' }),
    agentId: agent,
    requiresAuth: false,
    audioInterface: microphone,
    webSocketFactory: { create: (_url, options) => new WebSocket(address, { ...options, headers }) },
    callbackAgentResponse: text => told.answers.push(text),
    callbackUserTranscript: text => told.transcripts.push(text),
    callbackLatencyMeasurement: ms => told.latencies.push(ms),
  })
  conversation.on('error', () => {}) // The end says the rest.
  conversation.on('session_ended', (_id, code, reason) => {
    told.ended = { code, reason }
  })
  await conversation.startSession()
  return { conversation, microphone, told }
}

test.serial('101: the official SDK talks to an agent, directly and through the gateway', async t => {
  const account = await gateway.account()
  const direct = `${conversations.url}/v1/convai/conversation?agent_id=${agent}`
  const through = `${gateway.url}/v1/realtime?model=house-agent`
  for (const [address, headers] of [
    [direct, {}],
    [through, { authorization: `Bearer ${account.live}` }],
  ] as const) {
    const { conversation, microphone, told } = await converse(address, headers)
    await eventually(() => conversation.getConversationId() === 'conv_1', 'the conversation began')
    await eventually(() => conversations.last.events.some(({ type }) => type === 'pong'), 'the ping is answered')
    conversation.sendUserMessage('Good evening.')
    await eventually(() => told.answers.includes('Good evening.'), 'the agent answered')
    const sound = Buffer.alloc(320, 5)
    microphone.say(sound)
    await eventually(() => microphone.heard.length === 1, 'the agent spoke')
    t.deepEqual(microphone.heard, [sound])
    t.deepEqual(told.transcripts, ['Hello.'])
    t.deepEqual(told.latencies, [20])
    if (address === through) clock.advance(90_000)
    conversation.endSession()
    await eventually(() => conversations.last.closed !== null, 'the provider is left')
  }
  t.is(conversations.last.headers['xi-api-key'], 'xi-provider')
  t.is(conversations.last.query.get('agent_id'), agent)
  // A minute and a half at $0.12, with the margin of 5 %.
  t.is(await spent(account), 189_000_000)
})

test.serial('an agent that is not there: its close code and reason pass', async t => {
  const account = await gateway.account()
  const client = dial(gateway, account.live, 'strange-agent')
  t.is((await client.end()).code, 3000)
  t.is(client.closed!.reason, 'The AI agent you are trying to reach does not exist.')
  t.is(conversations.last.query.get('agent_id'), 'agent & co')
  t.is(await spent(account), 0)
})

test.serial('4402: the SDK is not troubled by our error event, and hears why it ends', async t => {
  // A minute of it, which is reserved ahead, costs $0.126.
  const account = await gateway.account({ usd: '0.2' })
  const { told } = await converse(`${gateway.url}/v1/realtime?model=house-agent`, {
    authorization: `Bearer ${account.live}`,
  })
  clock.advance(61_000)
  await eventually(() => told.ended !== null, 'it is ended')
  t.deepEqual(told.ended, { code: 4402, reason: 'insufficient_credits' })
  t.is(await spent(account), 128_100_000)
})

test('404 for the agent that is shipped: an operator adds its own', async t => {
  const { live } = await gateway.account()
  const answer = new Promise(resolve => {
    dial(gateway, live, 'elevenlabs-agent').socket.on('unexpected-response', (_request, response) => {
      resolve(response.statusCode)
      response.destroy()
    })
  })
  t.is(await answer, 404)
})
