import { startAzureRealtime } from '../../emulators/azure-realtime.ts'
import { usualUsage } from '../../emulators/openai-realtime.ts'
import { openTalk } from '../../support/realtime/sdk.ts'
import { bookedSession, millionthsNano } from '../../support/realtime/talks.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

/** Realtime sessions at Azure OpenAI, held with OpenAI's own client. */

const apiKey = 'azure-secret-0123456789'
const east = use(test, () =>
  startAzureRealtime({ apiKey, deployments: { voice: 'gpt-realtime-2.1', ears: 'gpt-realtime-whisper' } }),
)
const europe = use(test, () => startAzureRealtime({ apiKey, deployments: { small: 'gpt-realtime-2.1-mini' } }))
const gateway = useGateway(test, () => ({
  AZURE_REGIONS: 'eastus,sweden-central',
  AZURE_API_KEY: apiKey,
  AZURE_EASTUS_BASE_URL: `${east.url}/openai/v1`,
  AZURE_EASTUS_DEPLOYMENTS: 'gpt-realtime-2.1=voice@us,gpt-realtime-2.1-mini=ears,gpt-realtime-1.5=gone',
  AZURE_SWEDEN_CENTRAL_BASE_URL: `${europe.url}/openai/v1`,
  AZURE_SWEDEN_CENTRAL_DEPLOYMENTS: 'gpt-realtime-2.1-mini=small',
}))

test.serial('a session at the deployment that the operator named, charged at the price of its zone', async t => {
  const account = await gateway.account()
  const session = await openTalk(gateway.url, account.live, { model: 'gpt-realtime-2.1' })
  await session.heard('session.created')
  const { path, query, headers } = east.last
  t.is(path, '/openai/v1/realtime')
  t.deepEqual([...query], [['model', 'voice']])
  t.is(headers['api-key'], apiKey)
  t.is(headers.authorization, undefined)
  session.client.send({ type: 'response.create' })
  t.like((await session.heard('response.done')).response, { status: 'completed', usage: usualUsage })
  await session.close()
  const booked = await bookedSession(gateway, account)
  t.is(booked.chargedNano, millionthsNano([55, 4.4], [64, 0.44], [13, 35.2], [30, 26.4], [91, 70.4]))
  t.is(booked.generation.provider, 'azure/eastus')
})

test.serial('a session at another resource after one whose deployment has another model', async t => {
  const account = await gateway.account()
  const session = await openTalk(gateway.url, account.live, { model: 'gpt-realtime-2.1-mini' })
  await session.heard('session.created')
  t.is(europe.last.query.get('model'), 'small')
  session.client.send({ type: 'response.create' })
  await session.heard('response.done')
  await session.close()
  const { chargedNano, generation } = await bookedSession(gateway, account)
  t.is(chargedNano, millionthsNano([55, 0.6], [64, 0.06], [13, 10], [30, 2.4], [91, 20]))
  t.is(generation.provider, 'azure/sweden-central')
})

test.serial('no session where the deployment is missing, and none that only transcribes', async t => {
  const { live } = await gateway.account()
  const session = await openTalk(gateway.url, live, { model: 'gpt-realtime-1.5' })
  t.is((await session.end()).code, 1011)
  t.is(session.events[0]?.error.code, 'upstream_error')
  await t.throwsAsync(openTalk(gateway.url, live, { intent: 'transcription' }), {
    message: /50[03]|40\d/,
  })
})

test.serial('the emulator takes and refuses what Azure does, asked by OpenAI’s own client', async t => {
  const talk = (key: string, model: string) => openTalk(`${east.url}/openai`, key, { model })
  const session = await talk(apiKey, 'voice')
  t.is((await session.heard('session.created')).type, 'session.created')
  await session.close()
  await t.throwsAsync(talk('wrong', 'voice'), { message: /401/ })
  await t.throwsAsync(talk(apiKey, 'gpt-realtime-2.1'), { message: /404/ })
  await t.throwsAsync(talk(apiKey, 'ears'), { message: /400/ })
  await t.throwsAsync(openTalk(east.url, apiKey, { model: 'voice' }), { message: /404/ })
})
