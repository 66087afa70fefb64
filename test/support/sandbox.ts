import { type Dispatcher, request } from 'undici'
import { createSandbox } from '../../shared/providers/sandbox/upstream.ts'
import type { ExecutionContext } from './test.ts'

export const origin = 'http://sandbox.invalid'

export type Options = Pick<Dispatcher.RequestOptions, 'signal' | 'headersTimeout' | 'method'>

/** Posts to the sandbox as any HTTP client would, through undici. */
export function send(sandbox: Dispatcher, path: string, body: object | string, options: Options = { method: 'POST' }) {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return request(origin + path, { ...options, body: Buffer.from(text), dispatcher: sandbox })
}

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
export type Json = any

/** A sandbox that lives as long as the test. */
export function opened(t: ExecutionContext) {
  const sandbox = createSandbox()
  t.teardown(() => sandbox.destroy())
  return {
    sandbox,
    async post(path: string, body: object | string): Promise<Json> {
      const response = await send(sandbox, path, body)
      const json: Json = await response.body.json()
      t.is(response.statusCode, 200, JSON.stringify(json))
      return json
    },
    /** The events' data of a stream, without the `[DONE]` that must end it. */
    async stream(path: string, body: object): Promise<Json[]> {
      const response = await send(sandbox, path, { ...body, stream: true })
      t.is(response.headers['content-type'], 'text/event-stream')
      const events = (await response.body.text()).split('\n\n')
      t.deepEqual(events.slice(-2), ['data: [DONE]', ''])
      return events.slice(0, -2).map(event => JSON.parse(event.replace(/^data: /, '')))
    },
  }
}

export const chatPath = '/v1/chat/completions'
export const chat = (content: unknown, fields: object = {}) => ({
  model: 'm',
  messages: [{ role: 'user', content }],
  ...fields,
})
export const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' }, days: { type: 'integer', minimum: 2 } },
      required: ['city', 'days'],
    },
  },
}
