import { RealtimeEmulator } from '../emulators/openai-realtime.ts'
import { grown, growth, measured, scrape, total } from '../support/metrics/samples.ts'
import { openTalk } from '../support/realtime/sdk.ts'
import { bookedSession } from '../support/realtime/talks.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const model = 'gpt-realtime-2.1'
const target = { model, provider: 'openai' }

const openai = use(test, () => RealtimeEmulator.start())
const gateway = useGateway(test, () => ({
  ...measured,
  OPENAI_API_KEY: 'sk-upstream',
  OPENAI_BASE_URL: openai.baseUrl,
}))

test('a session is a gauge while it is open, then a request with its tokens and its money', async t => {
  const by = await growth(gateway)
  const account = await gateway.account()
  const session = await openTalk(gateway.url, account.live, { model })
  await session.heard('session.created')
  t.is(total(await scrape(gateway), 'headgate_realtime_sessions'), 1)
  for (const count of [1, 2]) {
    session.client.send({ type: 'response.create' })
    await session.heard('response.done', count)
  }
  await session.close()
  const { generation, chargedNano } = await bookedSession(gateway, account)
  await grown(by, 1, 'headgate_requests_total', { endpoint: 'GET /v1/realtime', ...target, env: 'live' })
  t.is(total(await scrape(gateway), 'headgate_realtime_sessions'), 0)
  t.is(await by('headgate_upstream_attempts_total', { ...target, outcome: 'ok' }), 1)
  t.is(Math.round((await by('headgate_spend_usd_total', target)) * 1e9), chargedNano)
  t.is(await by('gen_ai_client_inference_usage_input_tokens_total'), generation.promptTokens)
  t.is(await by('gen_ai_client_inference_usage_output_tokens_total'), generation.completionTokens)
})
