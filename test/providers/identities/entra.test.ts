import { startAzure } from '../../emulators/azure.ts'
import { identityHeader, startTokenServices } from '../../emulators/token-services.ts'
import { saying } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const tokens = use(test, () => startTokenServices())
const azure = use(test, () =>
  startAzure({ apiKey: 'none', deployments: { five: 'gpt-5.4' }, acceptsToken: token => tokens.isValid(token) }),
)
const gateway = useGateway(test, () => {
  // The libraries of the clouds read the environment of the process themselves.
  process.env.IDENTITY_ENDPOINT = `${tokens.emulator.url}/msi/token`
  process.env.IDENTITY_HEADER = identityHeader
  return {
    AZURE_REGIONS: 'eastus',
    AZURE_EASTUS_BASE_URL: `${azure.url}/openai/v1`,
    AZURE_DEPLOYMENTS: 'gpt-5.4=five',
  }
})
test.atEnd(() => {
  delete process.env.IDENTITY_ENDPOINT
  delete process.env.IDENTITY_HEADER
})

test('200 from Azure without an API key, by the token of a managed identity', async t => {
  const account = await gateway.account()
  for (const stream of [false, true]) {
    const response = await gateway.fetch('/v1/chat/completions', {
      key: account.live,
      body: saying('gpt-5.4', 'Hi', { stream }),
    })
    const text = await response.text()
    t.is(response.status, 200, text)
    t.is(response.headers.get('x-gateway-provider'), 'azure/eastus')
    t.false(text.includes('emulated-token'))
  }
  t.is(tokens.given, 1)
  t.regex(String(azure.requests[0]!.headers.authorization), /^Bearer emulated-token-1-/)
  t.is(azure.requests[0]!.headers['api-key'], undefined)
})
