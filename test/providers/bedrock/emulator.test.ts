import {
  BedrockRuntimeClient,
  ConverseCommand,
  ConverseStreamCommand,
  InvokeModelCommand,
} from '@aws-sdk/client-bedrock-runtime'
import { NodeHttpHandler } from '@smithy/node-http-handler'
import { converseReply, exception, failed, frames, startBedrockEmulator, throttled } from '../../emulators/bedrock.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** The emulator as AWS' own SDK uses it. */

const accessKey = { accessKeyId: 'AKIAEMULATED00000001', secretAccessKey: 'emulated/secret+key' }
const emulator = use(test, () => startBedrockEmulator({ keys: [accessKey], tokens: ['bedrock-api-key-emulated'] }))

const modelId = 'us.anthropic.claude-haiku-4-5-20251001-v1:0'
const hi = [{ role: 'user' as const, content: [{ text: 'Hello' }] }]

function client(settings: object = { credentials: accessKey }): BedrockRuntimeClient {
  return new BedrockRuntimeClient({
    region: 'us-east-1',
    endpoint: emulator.url,
    requestHandler: new NodeHttpHandler(),
    maxAttempts: 1,
    ...settings,
  })
}

const withToken = {
  token: () => Promise.resolve({ token: 'bedrock-api-key-emulated' }),
  authSchemePreference: ['httpBearerAuth'],
}

for (const [name, settings] of [
  ['a signature', { credentials: accessKey }],
  ['an API key', withToken],
] as const) {
  test.serial(`the SDK converses with ${name}, streamed and not`, async t => {
    const sdk = client(settings)
    const whole = await sdk.send(new ConverseCommand({ modelId, messages: hi }))
    t.is(whole.output?.message?.content?.[0]?.text, 'Echo: Hello')
    t.is(whole.stopReason, 'end_turn')
    const { stream } = await sdk.send(new ConverseStreamCommand({ modelId, messages: hi }))
    let text = ''
    let last: unknown
    for await (const event of stream!) {
      text += event.contentBlockDelta?.delta?.text ?? ''
      last = event
    }
    t.is(text, 'Echo: Hello')
    t.like(last, { metadata: { usage: whole.usage } })
    const body = JSON.stringify({ inputText: 'Hello', dimensions: 256 })
    const answer = await sdk.send(new InvokeModelCommand({ modelId: 'amazon.titan-embed-text-v2:0', body }))
    t.is(JSON.parse(new TextDecoder().decode(answer.body)).embedding.length, 256)
  })
}

test.serial('403 when the SDK signs with another secret, or for another region', async t => {
  const other = { ...accessKey, secretAccessKey: 'another' }
  await t.throwsAsync(client({ credentials: other }).send(new ConverseCommand({ modelId, messages: hi })), {
    name: 'InvalidSignatureException',
  })
  await t.throwsAsync(
    client({ credentials: accessKey, region: 'eu-west-1' }).send(new ConverseCommand({ modelId, messages: hi })),
    {
      name: 'InvalidSignatureException',
    },
  )
})

test.serial('what Converse refuses is an error of its type in the SDK', async t => {
  const send = (input: object) => client().send(new ConverseCommand({ modelId, messages: hi, ...input }))
  const call = { toolUse: { toolUseId: 'a', name: 'now', input: {} } }
  const result = { toolResult: { toolUseId: 'a', content: [{ text: 'noon' }] } }
  const withTools = [...hi, { role: 'assistant', content: [call] }, { role: 'user', content: [result] }]
  await t.throwsAsync(send({ messages: withTools }), {
    name: 'ValidationException',
    message: /toolConfig field must be/,
  })
  await t.throwsAsync(send({ messages: [{ role: 'user', content: [{ text: ' ' }] }] }), { message: /is blank/ })
  await t.throwsAsync(send({ inferenceConfig: { temperature: 1, topP: 1 } }), { message: /cannot both be specified/ })
  emulator.next(throttled)
  await t.throwsAsync(send({}), { name: 'ThrottlingException' })
  emulator.next(failed('ServiceQuotaExceededException', 'Too many tokens per day.'))
  await t.throwsAsync(send({}), { name: 'ServiceQuotaExceededException' })
})

test.serial('an exception within a stream is one in the SDK', async t => {
  const half = [{ type: 'messageStart', payload: { role: 'assistant' } }]
  emulator.next(
    frames([...half, exception('modelStreamErrorException', 'The model failed.', { originalStatusCode: 500 })]),
  )
  const { stream } = await client().send(new ConverseStreamCommand({ modelId, messages: hi }))
  const read = async () => {
    for await (const _ of stream!);
  }
  await t.throwsAsync(read, { name: 'ModelStreamErrorException' })
})

test.serial('reasoning and tool calls have the form that the SDK reads', async t => {
  const redactedContent = Buffer.from('hidden').toString('base64')
  const content = [
    { reasoningContent: { redactedContent } },
    { toolUse: { toolUseId: 'a', name: 'now', input: { at: 1 } } },
  ]
  emulator.next(converseReply({ content, stopReason: 'tool_use' }))
  const { stream } = await client().send(new ConverseStreamCommand({ modelId, messages: hi }))
  const deltas = []
  for await (const { contentBlockDelta } of stream!) if (contentBlockDelta) deltas.push(contentBlockDelta.delta)
  t.deepEqual(Buffer.from(deltas[0]?.reasoningContent?.redactedContent ?? []).toString(), 'hidden')
  t.is(
    deltas
      .slice(1)
      .map(delta => delta?.toolUse?.input)
      .join(''),
    '{"at":1}',
  )
})
