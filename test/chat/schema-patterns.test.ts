import { startChatProvider } from '../emulators/chat-rules.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/** Patterns of schemas, which providers compile (`emulators/schema-rules.ts`). */

type Schema = Record<string, unknown>
const openai = use(test, () => startChatProvider('openai'))
const gateway = useGateway(test, () => ({ OPENAI_API_KEY: 'upstream-secret', OPENAI_BASE_URL: `${openai.url}/v1` }))
const weather = [{ role: 'user', content: 'What is the weather in Oslo?' }]

async function ask(path: string, body: object) {
  const { live: key } = await gateway.account()
  const response = await gateway.fetch(path, { key, body: { model: 'gpt-4o', ...body } })
  const { status, headers } = response
  return { status, adjusted: headers.get('x-gateway-adjusted'), text: await response.text() }
}

test.serial(
  '200 with patterns that look around, as Zod has for e-mail addresses, in all dialects: they are told',
  async t => {
    const pattern =
      "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"
    const plain = { type: 'string', pattern: '^\\(?=?[0-9]+$' }
    const email = { type: 'string', format: 'email', pattern, description: 'Whom to tell.' }
    const parameters = {
      type: 'object',
      properties: { email, plain, pattern: { type: 'string' } },
      required: ['email', 'plain', 'pattern'],
      additionalProperties: false,
    }
    const fn = { name: 'weather', parameters, strict: true }
    const format = { name: 'place', schema: parameters, strict: true }
    const input_schema = parameters
    const asked: [path: string, body: object, adjusted: string][] = [
      [
        '/v1/chat/completions',
        {
          messages: weather,
          tools: [{ type: 'function', function: fn }],
          response_format: { type: 'json_schema', json_schema: format },
        },
        'tools.0.function.parameters,response_format',
      ],
      [
        '/v1/responses',
        { input: 'Hi', tools: [{ type: 'function', ...fn }], text: { format: { type: 'json_schema', ...format } } },
        'tools.0.parameters,text.format.schema',
      ],
      [
        '/v1/messages',
        { max_tokens: 99, messages: weather, tools: [{ name: 'weather', input_schema }] },
        'tools.0.function.parameters',
      ],
    ]
    for (const [to, body, adjusted] of asked) {
      const answer = await ask(to, body)
      t.is(answer.status, 200, answer.text)
      t.is(answer.adjusted, adjusted, to)
      const sent = openai.requests.at(-1)!.body
      const schemas: Schema[] = [sent.tools[0].function?.parameters ?? sent.tools[0].parameters]
      if (to !== '/v1/messages') schemas.push(sent.response_format?.json_schema.schema ?? sent.text.format.schema)
      for (const { properties } of schemas) {
        const { email: sentEmail, ...others } = properties as Record<string, Schema>
        t.deepEqual(others, { plain, pattern: { type: 'string' } } as Record<string, Schema>)
        t.is(sentEmail!.pattern, undefined)
        t.regex(String(sentEmail!.description), /^Whom to tell\.\n\n\{pattern: /)
      }
    }
  },
)
