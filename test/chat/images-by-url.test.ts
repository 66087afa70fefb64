import { createServer, type Server } from 'node:https'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { bedrockReply } from '../emulators/bedrock.ts'
import { startChatProvider } from '../emulators/chat-rules.ts'
import { Emulator } from '../emulators/emulator.ts'
import { createAuthority } from '../support/io/certificates.ts'
import { png } from '../support/media/png.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/** Claude at Bedrock and Moonshot's models take images as base64 only: those by https are fetched by the gateway. */
const token = 'bedrock-api-key-emulated'
const image = png(8)
const bedrock = use(test, () => Emulator.start(bedrockReply({ tokens: [token] })))
const moonshot = use(test, () => startChatProvider('moonshot'))
const trusted = getCACertificates('default')
const files = use(test, startFiles, ({ server, remove }) => {
  setDefaultCACertificates(trusted)
  server.close()
  return remove()
})
const gateway = useGateway(test, () => ({
  ALLOW_PRIVATE_URLS: 'true',
  AWS_BEARER_TOKEN_BEDROCK: token,
  BEDROCK_REGIONS: 'us-east-1',
  BEDROCK_US_EAST_1_BASE_URL: bedrock.url,
  BEDROCK_US_EAST_1_ANTHROPIC_BASE_URL: `${bedrock.url}/anthropic`,
  MOONSHOT_API_KEY: 'upstream-secret',
  MOONSHOT_BASE_URL: `${moonshot.url}/v1`,
}))

/** A host of one image, whose certificate this process trusts. */
async function startFiles(): Promise<{ server: Server; url: string; remove(): Promise<void> }> {
  const authority = await createAuthority()
  setDefaultCACertificates([...trusted, authority.cert])
  const { cert, key } = await authority.issue('files')
  const server = createServer({ cert, key }, (_request, response) => {
    response.writeHead(200, { 'content-type': 'image/png' })
    response.end(image)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  return { server, url: `https://127.0.0.1:${port}/a.png`, remove: () => authority.remove() }
}

const provider = { only: ['bedrock/us-east-1/anthropic'] }
const model = 'claude-sonnet-4-6'
const data = image.toString('base64')
const bytes = { type: 'base64', media_type: 'image/png', data }

function bodyIn(dialect: string): object {
  const { url } = files
  const source = { type: 'url', url }
  const bodies: Record<string, object> = {
    '/v1/chat/completions': { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }] },
    '/v1/messages': { max_tokens: 100, messages: [{ role: 'user', content: [{ type: 'image', source }] }] },
    '/v1/responses': { input: [{ role: 'user', content: [{ type: 'input_image', image_url: url }] }] },
  }
  return bodies[dialect]!
}

for (const dialect of ['/v1/chat/completions', '/v1/messages', '/v1/responses']) {
  test.serial(`200 at Bedrock for an image by https in ${dialect}`, async t => {
    const { live } = await gateway.account()
    const body = { model, provider, ...bodyIn(dialect) }
    const response = await gateway.fetch(dialect, { key: live, body })
    t.is(response.status, 200, await response.text())
    t.deepEqual(bedrock.requests.at(-1)!.body.messages[0].content[0].source, bytes)
  })

  test.serial(`200 at Moonshot for an image by https in ${dialect}`, async t => {
    const { live } = await gateway.account()
    for (const kimi of ['kimi-k2.5', 'kimi-k3']) {
      const body = { model: kimi, provider: { only: ['moonshot'] }, ...bodyIn(dialect) }
      const response = await gateway.fetch(dialect, { key: live, body })
      t.is(response.status, 200, await response.text())
      const [part] = moonshot.requests.at(-1)!.body.messages[0].content
      t.is(part.image_url.url, `data:image/png;base64,${data}`)
    }
  })
}

test.serial('200 at Bedrock for an image by https in the result of a tool', async t => {
  const { live } = await gateway.account()
  const result = [{ type: 'image', source: { type: 'url', url: files.url } }]
  const messages = [
    { role: 'user', content: 'Look.' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: result }] },
  ]
  const tools = [{ name: 'look', input_schema: { type: 'object' } }]
  const body = { model, provider, max_tokens: 100, messages, tools }
  const response = await gateway.fetch('/v1/messages', { key: live, body })
  t.is(response.status, 200, await response.text())
  t.deepEqual(bedrock.requests.at(-1)!.body.messages[2].content[0].content[0].source, bytes)
})
