import { reset } from '../emulators/emulator.ts'
import { chargedNano, dataOf, expectedNano, generationOf, startWorld } from '../support/chat/gateway.ts'
import { png } from '../support/media/png.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startWorld)

const url = `data:image/png;base64,${png(1).toString('base64')}`
const bodies: [title: string, body: object][] = [
  ['small talk', { messages: [{ role: 'user', content: 'Hi, how are you?' }] }],
  [
    'a proof',
    { messages: [{ role: 'user', content: 'Prove the theorem step by step and analyze its complexity: ∑ 1/n²' }] },
  ],
  [
    'an image',
    {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is this?' },
            { type: 'image_url', image_url: { url } },
          ],
        },
      ],
    },
  ],
  ['two choices', { n: 2, messages: [{ role: 'user', content: 'Hi' }] }],
  ['a painted image', { modalities: ['image', 'text'], messages: [{ role: 'user', content: 'Paint' }] }],
  [
    'a tool that must be called',
    {
      tools: [{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }],
      tool_choice: 'required',
      messages: [{ role: 'user', content: 'the weather in Oslo' }],
    },
  ],
]
type Candidate = { model: string; excluded: string | null; estimated_cost_usd: number }
type Routing = {
  model: string
  provider: string
  mode: string
  fallbacks: string[]
  candidates: Candidate[]
} & Candidate

async function decisionOn(key: string, body: object): Promise<Routing> {
  const response = await world.gateway.fetch('/v1/route', { key, body })
  return (await response.json()) as Routing
}

for (const [title, body] of bodies) {
  test.serial(`200 where /v1/route said, in every mode, live and test: ${title}`, async t => {
    const account = await world.gateway.account()
    for (const mode of ['cost', 'balanced', 'quality']) {
      for (const key of [account.live, account.test]) {
        for (const stream of [false, true]) {
          const request = { model: 'auto', mode, stream, ...body }
          const decision = await decisionOn(key, request)
          const response = await world.gateway.fetch('/v1/chat/completions', { key, body: request })
          const text = await response.text()
          t.is(response.status, 200, text)
          t.is(response.headers.get('x-gateway-model'), decision.model)
          t.is(response.headers.get('x-gateway-provider'), decision.provider)
          t.is(response.headers.get('x-gateway-mode'), mode)
          t.is(response.headers.get('x-gateway-attempts'), '1')
          const chosen = decision.candidates.find(one => one.model === decision.model && !one.excluded)
          t.is(chosen?.estimated_cost_usd, decision.estimated_cost_usd)
        }
      }
    }
    t.true((await chargedNano(world, account)) > 0)
  })
}

test.serial('200 in the key’s own mode, which the body’s mode overrides', async t => {
  const { live } = await world.gateway.account({ mode: 'quality' })
  const modeOf = (more: object) =>
    decisionOn(live, { model: 'auto', messages: [{ role: 'user', content: 'Hi' }], ...more })
  t.is((await modeOf({})).mode, 'quality')
  t.is((await modeOf({ mode: 'cost' })).mode, 'cost')
})

test.serial('200 from the next best model when the best one’s providers fail before the first byte', async t => {
  const account = await world.gateway.account()
  const body = {
    model: 'auto',
    mode: 'quality',
    stream: true,
    messages: [{ role: 'user', content: 'Prove that primes never end.' }],
  }
  const { model, fallbacks } = await decisionOn(account.live, body)
  t.true(fallbacks.length >= 2)
  world.anthropic.next(reset)
  const response = await world.gateway.fetch('/v1/chat/completions', { key: account.live, body })
  const usage = dataOf(await response.text()).at(-2).usage
  t.is(response.headers.get('x-gateway-attempts'), '2')
  const next = response.headers.get('x-gateway-model')!
  const provider = response.headers.get('x-gateway-provider')!
  t.is(`${next}@${provider}`, fallbacks[0]!)
  t.not(`${next}@${provider}`, `${model}@anthropic`)
  t.is(await chargedNano(world, account), expectedNano(next, usage, { provider }))
  t.like(await generationOf(world, response.headers.get('x-generation-id')!), { mode: 'quality', attempts: 2 })
})

const call = { type: 'function_call', call_id: 'call_1', name: 'look', arguments: '{}' }
const output = { type: 'function_call_output', call_id: 'call_1', output: '42' }
const wordless: [title: string, items: object[]][] = [
  ['a call and its output', [call, output]],
  ['a call, its output and reasoning', [{ type: 'reasoning', summary: [] }, call, output]],
]
for (const [title, input] of wordless)
  test.serial(`200 for Responses whose input is ${title}, without a message or instructions`, async t => {
    const { live, test: sandboxed } = await world.gateway.account()
    for (const key of [live, sandboxed])
      for (const path of ['/v1/responses', '/v1/responses/input_tokens', '/v1/responses/compact'])
        for (const model of ['auto', 'gpt-4o-mini', 'claude-haiku-4-5']) {
          const response = await world.gateway.fetch(path, { key, body: { model, input } })
          t.is(response.status, 200, `${path} ${model}: ${await response.text()}`)
        }
  })

test.serial('400 for Responses whose only item is of an unknown type, as with a model that is named', async t => {
  const { live: key } = await world.gateway.account()
  const input = [{ type: 'new_item', data: 'x' }]
  for (const path of ['/v1/responses', '/v1/responses/compact'])
    for (const model of ['gpt-4o-mini', 'claude-haiku-4-5', 'auto']) {
      const response = await world.gateway.fetch(path, { key, body: { model, input } })
      t.is(response.status, 400, `${path} ${model}`)
      t.like(await response.json(), { error: { code: 'unsupported_capability', param: 'input.0.type' } })
    }
  // Items are counted whatever their types are.
  const counted = await world.gateway.fetch('/v1/responses/input_tokens', { key, body: { model: 'auto', input } })
  t.is(counted.status, 200)
})
