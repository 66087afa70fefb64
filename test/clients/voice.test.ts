import { OpenAIRealtimeWebSocket, RealtimeAgent, RealtimeSession, tool } from '@openai/agents/realtime'
import test from 'ava'
import { z } from 'zod'
import { baseUrl, testKey } from './support/environment.ts'

const model = 'gpt-realtime-2.1'
const samplesPerSecond = 24_000

/** A second of a tone, then one of silence, which ends the turn. */
function turn(): ArrayBuffer {
  return Int16Array.from({ length: 2 * samplesPerSecond }, (_, index) =>
    index < samplesPerSecond ? 12_000 * Math.sin(index / 20) : 0,
  ).buffer
}

test('101 @openai/agents: an agent of a session is written and spoken to, and calls its tool', async t => {
  const errors: unknown[] = []
  const asked: string[] = []
  const weather = tool({
    name: 'get_weather',
    description: 'The weather of a city',
    parameters: z.object({ city: z.string() }),
    execute: ({ city }) => {
      asked.push(city)
      return 'Sunny'
    },
  })
  const agent = new RealtimeAgent({ name: 'Forecaster', instructions: 'Be brief.', tools: [weather] })
  const url = `${baseUrl.replace('http', 'ws')}/realtime?model=${model}`
  const session = new RealtimeSession(agent, {
    model,
    transport: new OpenAIRealtimeWebSocket({ url }),
    config: { audio: { input: { transcription: { model: 'gpt-4o-mini-transcribe' } } } },
  })
  session.on('error', ({ error }) => errors.push(error))
  t.teardown(() => session.close())
  /** What the agent says next, once it has said it. */
  const said = () =>
    new Promise<string>(resolve => {
      const listen = (_context: unknown, _agent: unknown, output: string) => {
        // A call of a tool ends a response without words; another follows its result.
        if (output === '') return
        session.off('agent_end', listen)
        resolve(output)
      }
      session.on('agent_end', listen)
    })

  await session.connect({ apiKey: testKey })
  const answer = said()
  session.sendMessage('sandbox:tool What is the weather?')
  t.regex(await answer, /What is the weather\?$/)
  t.is(asked.length, 1)

  const spoken = said()
  session.sendAudio(turn())
  t.regex(await spoken, /^You said [\d.]+ seconds of sound\.$/)
  const mine = session.history.flatMap(item => (item.type === 'message' && item.role === 'user' ? item.content : []))
  t.true(mine.some(part => part.type === 'input_audio' && /seconds of sound/.test(part.transcript ?? '')))
  t.deepEqual(errors, [])
})
