import { GoogleGenAI, type LiveServerMessage, Modality, type Session } from '@google/genai'
import { WebSocket } from 'ws'
import { LiveEmulator, sound, usualUsage } from '../../emulators/gemini-live.ts'
import { eventually } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

// The official SDK is the judge of the emulator.

const emulator = use(test, () => LiveEmulator.start())

async function connect(apiVersion = 'v1beta', config: object = {}) {
  const heard: LiveServerMessage[] = []
  let closed: { code: number; reason: string } | null = null
  const sdk = new GoogleGenAI({ apiKey: 'AIza-test', apiVersion, httpOptions: { baseUrl: emulator.url } })
  const session: Session = await sdk.live.connect({
    model: 'gemini-3.1-flash-live-preview',
    config: { responseModalities: [Modality.AUDIO], ...config },
    callbacks: {
      onmessage: message => void heard.push(message),
      onclose: event => {
        closed = { code: event.code, reason: event.reason }
      },
    },
  })
  return { session, heard, closed: () => closed }
}

test.serial(
  '101: a session is set up, and a turn is answered with sound, a transcript and a usage, under both versions',
  async t => {
    for (const version of ['v1', 'v1beta']) {
      const { session, heard } = await connect(version, { sessionResumption: {} })
      session.sendClientContent({ turns: [{ role: 'user', parts: [{ text: 'Hello' }] }] })
      await eventually(() => heard.some(({ serverContent }) => serverContent?.turnComplete), 'the turn is complete')
      t.is(heard.find(({ data }) => data)?.data, sound)
      t.is(heard.find(message => message.sessionResumptionUpdate)?.sessionResumptionUpdate?.newHandle, 'handle-1')
      t.true(heard.some(({ serverContent }) => serverContent?.outputTranscription?.text === 'Hello there.'))
      t.deepEqual(heard.at(-1)?.usageMetadata, usualUsage as object)
      t.true(emulator.last.headers['x-goog-api-key'] === 'AIza-test' || emulator.last.query.get('key') === 'AIza-test')
      session.close()
    }
  },
)

test.serial('a turn that calls a tool goes on once it is answered; one that is interrupted ends', async t => {
  emulator.turns({ tool: { name: 'get_weather', usage: usualUsage } }, { ends: false })
  const { session, heard } = await connect()
  session.sendRealtimeInput({ text: 'How is the weather?' })
  await eventually(() => heard.some(({ toolCall }) => toolCall), 'the tool is called')
  const call = heard.find(({ toolCall }) => toolCall)!.toolCall!.functionCalls![0]!
  t.is(call.name, 'get_weather')
  session.sendToolResponse({ functionResponses: [{ id: call.id!, name: call.name!, response: { output: 'rain' } }] })
  await eventually(() => heard.some(({ serverContent }) => serverContent?.turnComplete), 'the turn is complete')
  session.sendRealtimeInput({ audioStreamEnd: true })
  await eventually(() => heard.filter(({ data }) => data).length === 3, 'the second turn is under way')
  session.sendRealtimeInput({ activityStart: {} })
  await eventually(() => heard.some(({ serverContent }) => serverContent?.interrupted), 'it is interrupted')
  await eventually(() => heard.filter(({ usageMetadata }) => usageMetadata).length === 3, 'each answer has its usage')
  session.close()
})

test.serial('a session that Google ends says so before', async t => {
  const { heard, closed } = await connect()
  emulator.last.send({ goAway: { timeLeft: '1s' } }, { binary: true })
  emulator.last.socket.close(1011, 'The service is going away.')
  await eventually(() => closed() !== null, 'it is closed')
  t.is(heard.at(-1)?.goAway?.timeLeft, '1s')
  t.deepEqual(closed(), { code: 1011, reason: 'The service is going away.' })
})

test.serial('1007 for what is no setup; 403 without an API key, 404 elsewhere', async t => {
  const path = '/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent'
  const closedBy = async (first: string) => {
    const socket = new WebSocket(`${emulator.url}${path}?key=k`)
    let code = 0
    socket.on('open', () => socket.send(first))
    socket.on('close', it => {
      code = it
    })
    await eventually(() => code !== 0, 'it is closed')
    return code
  }
  for (const first of ['{', '{"realtimeInput":{"text":"hi"}}', '{"setup":{"model":"gemini-x"}}']) {
    t.is(await closedBy(first), 1007, first)
  }
  const statusOf = async (address: string) => {
    const socket = new WebSocket(emulator.url + address)
    let status = 0
    socket.on('unexpected-response', (_request, response) => {
      status = response.statusCode ?? 0
      response.destroy()
    })
    socket.on('error', () => {})
    await eventually(() => status !== 0, 'it is refused')
    return status
  }
  t.is(await statusOf(path), 403)
  t.is(await statusOf(`${path}?key=invalid`), 403)
  t.is(await statusOf('/ws/elsewhere?key=k'), 404)
})
