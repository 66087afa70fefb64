import { startOpenAiEmulator } from '../emulators/openai.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const upstream = use(test, startOpenAiEmulator)
const gateway = useGateway(test, () => ({ OPENAI_API_KEY: 'sk-upstream', OPENAI_BASE_URL: `${upstream.url}/v1` }))

test.serial('200 with the answer, its cost and the gateway’s headers', async t => {
  const { live, organisationId } = await gateway.account()
  const response = await gateway.fetch('/v1/chat/completions', {
    key: live,
    body: { model: 'gpt-5.6-luna', messages: [{ role: 'user', content: 'Hello' }] },
  })
  const body = (await response.json()) as {
    usage: { cost: number }
    provider: string
    choices: { message: { content: string } }[]
  }
  t.is(response.status, 200, JSON.stringify(body))
  t.is(body.choices[0]!.message.content, 'Echo: Hello')
  t.is(body.provider, 'openai')
  t.true(body.usage.cost > 0)
  t.is(response.headers.get('x-gateway-cost-usd'), String(body.usage.cost))
  t.deepEqual(await gateway.settled(), [])
  const view = await gateway.services.wallets.view(organisationId)
  t.is(Number(view.balanceNano), 25e9 - Math.round(body.usage.cost * 1e9))
})
