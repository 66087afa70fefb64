import { parseEvents } from '../../../shared/io/sse.ts'
import { readAsEvents } from '../../../shared/providers/adapters/bedrock/event-stream.ts'
import { converseEvents, exception, frameOf } from '../../emulators/bedrock.ts'
import { test } from '../../support/test.ts'

const headers = { 'content-type': 'application/vnd.amazon.eventstream' }
const content = [{ text: 'Grüße 👋 aus Oslo\n\nund Rom' }]
const list = converseEvents({ content, stopReason: 'end_turn', usage: { inputTokens: 1, outputTokens: 2 } })
const whole = Buffer.concat(list.map(frameOf))

/** The events of a body that arrives in these pieces. */
function eventsOf(
  pieces: readonly Buffer[],
  type: Record<string, string> = headers,
): { text: string; isEnded: boolean } {
  let text = ''
  let isEnded = false
  const sink = readAsEvents({
    onHead() {},
    onData(chunk) {
      text += chunk.toString()
    },
    onEnd() {
      isEnded = true
    },
    onError() {},
  })
  sink.onHead(200, type)
  for (const piece of pieces) sink.onData(piece)
  sink.onEnd()
  return { text, isEnded }
}

const expected = list.map(({ type, payload }) => ({ event: type, data: JSON.stringify(payload) }))

test('frames are events of their types, wherever the body is cut', t => {
  t.deepEqual(parseEvents(eventsOf([whole]).text), expected)
  for (let at = 1; at < whole.length; at++) {
    const { text, isEnded } = eventsOf([whole.subarray(0, at), whole.subarray(at)])
    if (!isEnded || JSON.stringify(parseEvents(text)) !== JSON.stringify(expected)) t.fail(`cut at ${at}`)
  }
  const bytes = Array.from(whole, (_, at) => whole.subarray(at, at + 1))
  t.deepEqual(parseEvents(eventsOf(bytes).text), expected)
})

test('an exception is an event that names it', t => {
  const events = parseEvents(eventsOf([frameOf(exception('throttlingException', 'Too many.'))]).text)
  t.deepEqual(events, [{ event: 'exception:throttlingException', data: '{"message":"Too many."}' }])
})

test('a damaged byte is found in any frame, and ends the stream', t => {
  const first = frameOf(list[0]!)
  for (let at = 0; at < first.length; at++) {
    const damaged = Buffer.from(whole)
    damaged[at]! ^= 0x40
    const events = parseEvents(eventsOf([damaged]).text)
    if (events.length !== 1 || events[0]?.event !== 'error') t.fail(`byte ${at}: ${JSON.stringify(events)}`)
  }
  const later = Buffer.from(whole)
  later[first.length + 30]! ^= 1
  t.deepEqual(
    parseEvents(eventsOf([later]).text).map(({ event }) => event),
    ['messageStart', 'error'],
  )
})

test('a frame that is longer than any can be is refused before it arrives', t => {
  const prelude = Buffer.alloc(12)
  prelude.writeUInt32BE(0x7fffffff, 0)
  const { crc32 } = process.getBuiltinModule('node:zlib')
  prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8)
  t.like(parseEvents(eventsOf([prelude]).text), [{ event: 'error' }])
})

test('other bodies pass unchanged', t => {
  t.is(eventsOf([Buffer.from('{"message":"no"}')], { 'content-type': 'application/json' }).text, '{"message":"no"}')
})
