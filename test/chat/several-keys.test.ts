import { json, type Reply } from '../emulators/emulator.ts'
import { chatReply } from '../emulators/openai.ts'
import { responsesReply } from '../emulators/openai-responses.ts'
import { startWorld } from '../support/chat/gateway.ts'
import { openResponses } from '../support/chat/responses-socket.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** Several API keys of a provider, whose accounts differ in the models that they have. */

const keys = ['first', 'second', 'third']
const world = use(test, () => startWorld({ OPENAI_API_KEY: keys.join(), OPENROUTER_API_KEY: '' }))
test.beforeEach(() => world.openai.reset())

const keyOf = (authorization: string | undefined) => authorization?.replace('Bearer ', '') ?? ''
const errorOf = (message: string, code: string | null, type = 'invalid_request_error') => ({
  error: { message, type, param: null, code },
})
const refusals: [what: string, refusal: Reply][] = [
  ['404', json(404, errorOf('The model `x` does not exist or you do not have access to it.', 'model_not_found'))],
  ['403', json(403, errorOf('Project `proj_x` does not have access to model `x`.', 'model_not_found'))],
]
/** A key that is paused for a model stays so for a minute, so each refusal has a model of its own. */
const doors: [path: string, models: string[], body: object, reply: Reply][] = [
  ['/v1/chat/completions', ['gpt-4o-mini', 'gpt-5-mini'], { messages: [{ role: 'user', content: 'Hi' }] }, chatReply()],
  [
    '/v1/chat/completions',
    ['gpt-4o', 'gpt-5'],
    { messages: [{ role: 'user', content: 'Hi' }], stream: true },
    chatReply(),
  ],
  ['/v1/responses', ['gpt-4.1', 'gpt-5-nano'], { input: 'Hi' }, responsesReply()],
  [
    '/v1/messages',
    ['gpt-4.1-mini', 'gpt-5.1'],
    { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 50 },
    chatReply(),
  ],
]
for (const [index, [what, refusal]] of refusals.entries())
  for (const [path, models, body, reply] of doors)
    test.serial(
      `200 by the next key after a ${what} for the model, which is not asked again: ${path} on ${models[index]}`,
      async t => {
        const { live } = await world.gateway.account()
        // The first key that is asked lacks the model.
        let lacking = ''
        const answer: Reply = (request, response) => {
          const key = keyOf(request.headers.authorization)
          lacking ||= key
          return (key === lacking ? refusal : reply)(request, response)
        }
        world.openai.next(...Array.from({ length: 12 }, () => answer))
        for (let asked = 0; asked < 6; asked++) {
          const response = await world.gateway.fetch(path, { key: live, body: { ...body, model: models[index] } })
          t.is(response.status, 200, await response.text())
          t.is(response.headers.get('x-gateway-attempts'), asked === 0 ? '2' : '1')
        }
        const used = world.openai.requests.map(({ headers }) => keyOf(headers.authorization))
        t.deepEqual([used.length, used.filter(key => key === lacking).length], [7, 1], used.join())
      },
    )

test.serial('502 where no key has the model; other models are answered by all keys', async t => {
  const { live } = await world.gateway.account()
  const missing = json(404, errorOf('The model `x` does not exist.', 'model_not_found'))
  world.openai.next(missing, missing, missing)
  const body = { model: 'o3', messages: [{ role: 'user', content: 'Hi' }] }
  const response = await world.gateway.fetch('/v1/chat/completions', { key: live, body })
  t.is(response.status, 502)
  t.is(new Set(world.openai.requests.map(({ headers }) => headers.authorization)).size, 3)
  world.openai.reset()
  for (let asked = 0; asked < 3; asked++)
    t.is(
      (await world.gateway.fetch('/v1/chat/completions', { key: live, body: { ...body, model: 'gpt-5.2' } })).status,
      200,
    )
  t.is(new Set(world.openai.requests.map(({ headers }) => headers.authorization)).size, 3)
})

test.serial(
  '200 on a WebSocket: every turn goes to the key of the first, whose account made its reasoning',
  async t => {
    const { live } = await world.gateway.account()
    for (const store of [false, undefined]) {
      world.openai.reset()
      const client = await openResponses(world.gateway.url, { key: live })
      let previous_response_id: string | undefined
      for (let turn = 0; turn < 4; turn++) {
        const events = await client.turn({
          model: 'gpt-5.4',
          input: 'Hi',
          ...(store === false && { store }),
          previous_response_id,
        })
        const last = events.at(-1) as { type: string; response: { id: string } }
        t.is(last.type, 'response.completed')
        previous_response_id = last.response.id
      }
      await client.close()
      t.is(world.openai.requests.length, 4)
      t.is(new Set(world.openai.requests.map(({ headers }) => headers.authorization)).size, 1, String(store))
    }
  },
)
