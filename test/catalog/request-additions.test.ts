import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type CatalogError, loadCatalog } from '../../shared/catalog/catalog.ts'
import { withBodyParameters, withHeaders } from '../../shared/catalog/request-additions.ts'
import { test } from '../support/test.ts'
import { useFolder } from '../support/use.ts'

const folder = useFolder(test)
const price = { unit: 'token', input: '1', output: '2' }

function load(additions: object, more: object = {}) {
  const file = join(folder, 'catalog.json')
  const row = {
    id: 'lab-chat',
    name: 'Lab',
    type: 'chat',
    owned_by: 'lab',
    created: 0,
    description: '',
    context_length: null,
    max_output_tokens: null,
    input_modalities: ['text'],
    output_modalities: ['text'],
    supported_parameters: [],
    quality: null,
    expires_on: null,
    price_source: null,
    price_as_of: null,
    providers: [{ provider: 'openai', upstream_model: 'm', price, ...additions }],
    ...more,
  }
  writeFileSync(file, JSON.stringify({ models: [row] }))
  const variables: Record<string, string> = { TOKEN: 'secret-token', BROKEN: 'two\nlines' }
  return loadCatalog(file, null, name => variables[name]).models.get('lab-chat')!.providers[0]!
}

const faultsOf = (additions: object, more?: object) => {
  try {
    load(additions, more)
    return ''
  } catch (error) {
    return (error as CatalogError).faults.join('\n')
  }
}

test('headers of a file have the values of their variables, and names in lower case', t => {
  const { headers } = load({ headers: { 'X-Token': `Bearer \${TOKEN}`, 'x-price': `$\${5}` } })
  t.deepEqual(headers, { 'x-token': 'Bearer secret-token', 'x-price': `\${5}` })
})

const refused: [additions: object, message: RegExp][] = [
  [{ headers: { 'x-token': `\${NOT_SET}` } }, /models\[lab-chat\]: providers\.0\.headers\.x-token: NOT_SET is not set/],
  [{ headers: { 'x-token': `\${BROKEN}` } }, /the value has characters that no header has/],
  ...[
    'Authorization',
    'x-api-key',
    'Cookie',
    'Connection',
    'Transfer-Encoding',
    'Content-Length',
    'Host',
    'traceparent',
    'x-amz-date',
  ].map(
    name =>
      [{ headers: { [name]: 'x' } }, /is a header of the connection, of the content or of credentials/] as [
        object,
        RegExp,
      ],
  ),
  [{ headers: { 'not a name': 'x' } }, /must be the name of a header/],
  [{ headers: { 'x-a': 'a\r\nx-b: c' } }, /printable ASCII/],
  ...[
    'model',
    'messages',
    'stream',
    'max_tokens',
    'n',
    'tools',
    'service_tier',
    'web_search_options',
    'generationConfig',
    'store',
  ].flatMap(name =>
    [
      { parameters: { set: { [name]: 1 } } },
      { parameters: { default: { [name]: 1 } } },
      { parameters: { remove: [name] } },
    ].map(one => [one, /decides what a request is or costs/] as [object, RegExp]),
  ),
  [{ parameters: { set: { top_k: 1 }, remove: ['top_k'] } }, /is in two of set, default and remove/],
  [{ parameters: { add: {} } }, /Unrecognized key/],
  [{ header: {} }, /did you mean "headers"/],
]

test('a file with headers or parameters that a deployment cannot have is refused at the start, with their place', t => {
  for (const [additions, message] of refused) t.regex(faultsOf(additions), message, JSON.stringify(additions))
})

test('media take no parameters: what they cost depends on members of any name', t => {
  const image = { type: 'image', output_modalities: ['image'], kind: {} }
  const offer = { price: { unit: 'image', usd: '0.1' }, parameters: { set: { steps: 50 } } }
  t.regex(faultsOf(offer, image), /chat, embeddings, rerank and moderation/)
})

test('headers win over those of the request, and are added to lists of betas', t => {
  const own = { 'anthropic-beta': 'b', 'x-title': 'ours' }
  t.deepEqual(withHeaders({ 'anthropic-beta': 'a', 'x-title': 'theirs' }, own), {
    'anthropic-beta': 'a,b',
    'x-title': 'ours',
  })
  t.deepEqual(withHeaders({}, own), own)
})

test('parameters change the members of a JSON body, and no other body', t => {
  const parameters = { set: { a: 1 }, default: { b: 2, c: 3 }, remove: ['d'] }
  const body = withBodyParameters(Buffer.from('{"a":0,"b":0,"d":4}'), parameters)
  t.deepEqual(JSON.parse(String(body)), { a: 1, b: 0, c: 3 })
  t.is(withBodyParameters('--form', parameters), '--form')
  t.is(withBodyParameters(null, parameters), null)
})
