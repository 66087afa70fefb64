import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { runOperator, storesEnv } from '../support/operator.ts'
import { test } from '../support/test.ts'
import { useFolder, useStores } from '../support/use.ts'

type Report = {
  provider: string
  listed: number
  partial: boolean
  new: { id: string; context_length: number | null; prices: object | null; note: string | null }[]
  gone: { id: string; upstream_model: string }[]
  changed: { id: string; field: string; catalog: string | number | null; listed: string | number }[]
}

const root = join(import.meta.dirname, '../..')
const catalog = loadCatalog()
const folder = useFolder(test)
let files = 0

const stores = useStores(test)

async function save(content: unknown): Promise<string> {
  files += 1
  const path = join(folder, `models-${files}.json`)
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

const run = (...args: string[]) => runOperator(storesEnv(stores), 'catalog', 'diff', ...args)

async function reportOf(provider: string, content: unknown): Promise<Report & { exitCode: number }> {
  const { exitCode, stdout, stderr } = await run('--provider', provider, await save(content), '--json')
  if (stderr) throw new Error(stderr)
  return { ...(JSON.parse(stdout) as { data: Report }).data, exitCode }
}

/** The names of the enabled chat models at a provider. */
const namesAt = (provider: string) =>
  [...catalog.models.values()]
    .filter(({ disabled }) => !disabled)
    .flatMap(({ providers }) => providers.filter(one => one.provider === provider))
    .map(({ upstream_model }) => upstream_model)

const openAiList = (ids: string[]) => ({
  object: 'list',
  data: ids.map(id => ({ id, object: 'model', owned_by: 'x' })),
})

test.serial('exit 0: a list of exactly what the catalog offers, dated snapshots and aliases among it', async t => {
  const { exitCode, ...report } = await reportOf(
    'openai',
    openAiList([...namesAt('openai'), 'gpt-5.6', 'gpt-4o-2024-08-06']),
  )
  t.deepEqual(report, { provider: 'openai', listed: report.listed, partial: false, new: [], gone: [], changed: [] })
  t.is(exitCode, 0)
  const said = await run('--provider', 'deepseek', await save(openAiList(namesAt('deepseek'))))
  t.regex(said.stdout, /^deepseek: \d+ listed, 0 new, 0 gone, 0 changed\n$/)
})

test.serial('exit 2: OpenAI’s list names what is new, gone, and ends on another day', async t => {
  const ids = namesAt('openai').filter(id => id !== 'gpt-5.5')
  const list = openAiList([...ids, 'gpt-7', 'gpt-3.5-turbo', 'gpt-6-astra'])
  Object.assign(list.data.find(({ id }) => id === 'gpt-5.4')!, { shutdown_date: '2027-06-01' })
  Object.assign(list.data.find(({ id }) => id === 'gpt-4o')!, { shutdown_date: '2027-01-14' })
  const report = await reportOf('openai', list)
  t.like(report, { exitCode: 2, partial: false })
  t.deepEqual(
    report.new.map(({ id, note }) => [id, note]),
    [
      ['gpt-3.5-turbo', 'retired'],
      ['gpt-6-astra', 'disabled'],
      ['gpt-7', null],
    ],
  )
  t.deepEqual(
    report.gone.map(({ id }) => id),
    ['gpt-5.5'],
  )
  t.like(report.changed, [{ id: 'gpt-5.4', field: 'expires_on', catalog: null, listed: '2027-06-01' }])
  t.is(report.changed.length, 1)
  const { stdout, exitCode } = await run(await save(list), '--provider', 'openai')
  t.is(exitCode, 2)
  for (const line of ['new      gpt-7', 'gone     gpt-5.5', 'changed  gpt-5.4  expires_on: none → 2027-06-01'])
    t.true(stdout.split('\n').includes(line), line)
})

test.serial(
  'exit 2: prices per token, per million and in cents per 100 million are compared in USD per million',
  async t => {
    const openRouter = await reportOf('openrouter', {
      data: [
        {
          id: 'openai/gpt-5',
          context_length: 400000,
          pricing: { prompt: '0.00000125', completion: '0.00001', request: '0' },
        },
        {
          id: 'openai/gpt-5-mini',
          pricing: { prompt: '0.0000003', completion: '0.000002', input_cache_read: '0.00000003' },
        },
        { id: 'new/model', context_length: 8192, pricing: { prompt: '0.0000001', completion: '0.0000004' } },
        { id: 'openrouter/auto', pricing: { prompt: '-1', completion: '-1' } },
      ],
    })
    t.deepEqual(
      openRouter.changed.map(({ id, field, catalog: own, listed }) => [id, field, own, listed]),
      [
        ['gpt-5', 'context_length', 272000, 400000],
        ['gpt-5-mini', 'price.input', '0.25', '0.3'],
        ['gpt-5-mini', 'price.cached_input', '0.025', '0.03'],
      ],
    )
    t.deepEqual(
      openRouter.new.map(({ id, prices, context_length }) => [id, prices, context_length]),
      [
        ['new/model', { input: '0.1', output: '0.4' }, 8192],
        ['openrouter/auto', null, null],
      ],
    )
    t.false(
      openRouter.gone.some(({ id }) => id.startsWith('veo') || id.includes('video')),
      'a list without any video model says nothing of them',
    )

    const together = await reportOf('together', [
      {
        id: 'openai/gpt-oss-120b',
        type: 'chat',
        context_length: 131072,
        pricing: { hourly: 0, input: 0.15, output: 0.75 },
      },
    ])
    t.like(together.changed, [{ id: 'gpt-oss-120b', field: 'price.output', catalog: '0.6', listed: '0.75' }])
    t.is(together.changed.length, 1)

    const xai = await reportOf('xai', {
      models: [
        {
          id: 'grok-4.5',
          aliases: ['grok-4.5-latest'],
          prompt_text_token_price: 20000,
          cached_prompt_text_token_price: 5000,
          completion_text_token_price: 60000,
        },
      ],
    })
    t.like(xai.changed, [{ id: 'grok-4.5', field: 'price.cached_input', catalog: '0.3', listed: '0.5' }])
    t.is(xai.changed.length, 1)
  },
)

test.serial('exit 2: the forms of other providers: names with a prefix, aliases, context windows, ends', async t => {
  const gemini = await reportOf('gemini', {
    models: [
      { name: 'models/gemini-3.8-flash', inputTokenLimit: 2097152, outputTokenLimit: 65536 },
      { name: 'models/gemini-9', inputTokenLimit: 10 },
    ],
  })
  t.like(gemini.changed, [{ id: 'gemini-3.8-flash', field: 'context_length', catalog: 1048576, listed: 2097152 }])
  t.is(gemini.new[0]!.id, 'gemini-9')
  const mistral = await reportOf('mistral', {
    data: [
      {
        id: 'mistral-large-latest',
        aliases: ['mistral-large-2512'],
        max_context_length: 262144,
        deprecation: '2027-04-30T12:00:00Z',
      },
    ],
  })
  t.deepEqual(mistral.new, [])
  t.like(mistral.changed, [{ id: 'mistral-large-3', field: 'expires_on', listed: '2027-04-30' }])
  const groq = await reportOf('groq', {
    data: [
      { id: 'openai/gpt-oss-120b', active: true, context_window: 131072 },
      { id: 'openai/gpt-oss-20b', active: false, context_window: 131072 },
    ],
  })
  t.deepEqual([groq.listed, groq.changed], [1, []])
  t.true(groq.gone.some(({ upstream_model }) => upstream_model === 'openai/gpt-oss-20b'))
  const ollama = await reportOf('ollama', { models: [{ name: 'llama3.2:3b', model: 'llama3.2:3b', size: 1 }] })
  t.false(ollama.gone.some(({ id }) => id === 'llama-3.2-3b-local'))
  t.true(ollama.gone.length > 0)
  const fireworks = await reportOf('fireworks', {
    models: [{ name: 'accounts/fireworks/models/glm-5p3', contextLength: 1048573 }],
  })
  t.deepEqual(fireworks.changed, [])
  const cohere = await reportOf('openai', {
    models: [{ name: 'command-z', context_length: 256000 }],
    next_page_token: '',
  })
  t.like(cohere, { partial: false, new: [{ id: 'command-z', context_length: 256000 }] })
})

test.serial(
  'exit 2: pages are read one after another or as an array; what is gone is not known before the last one',
  async t => {
    const names = namesAt('anthropic')
    const page = (ids: string[], hasMore: boolean) => ({
      data: ids.map(id => ({ type: 'model', id, max_input_tokens: null, lifecycle: 'active', retires_at: null })),
      has_more: hasMore,
    })
    const [first, last] = [page(names.slice(0, 3), true), page([...names.slice(4), 'claude-next'], false)]
    const whole = [`${JSON.stringify(first)}\n${JSON.stringify(last, null, 2)}\n`, [first, last]]
    for (const content of whole) {
      const report = await reportOf('anthropic', content)
      t.like(report, { listed: names.length, partial: false, new: [{ id: 'claude-next' }] })
      t.deepEqual(
        report.gone.map(({ upstream_model }) => upstream_model),
        [names[3]!],
      )
    }
    t.like(await reportOf('anthropic', first), { exitCode: 0, partial: true, gone: [] })
    t.regex((await run('--provider', 'anthropic', await save(first))).stdout, /goes on after its last page/)
  },
)

test.serial('exit 2: the list is read from the standard input', async t => {
  const path = await save(openAiList([...namesAt('deepseek'), 'deepseek-next']))
  const shell = `${process.execPath} api/operator.ts catalog diff --provider deepseek --json < ${path}`
  const env = { ...process.env, ...storesEnv(stores) }
  const failed = await t.throwsAsync<Error & { code: number; stdout: string }>(
    promisify(execFile)('sh', ['-c', shell], { cwd: root, env }),
  )
  t.is(failed!.code, 2)
  t.like(JSON.parse(failed!.stdout), { data: { new: [{ id: 'deepseek-next' }], gone: [] } })
})

const refused: [title: string, content: unknown, message: RegExp][] = [
  ['no JSON', '<html>', /models-\d+\.json: It is not JSON/],
  ['nothing', '', /It is not JSON/],
  ['a page that is cut off', '{"data":[{"id":"a"}', /It is not JSON/],
  [
    'an answer with an error',
    { error: { message: 'Incorrect API key provided' } },
    /error of the provider: Incorrect API key/,
  ],
  ['another answer', { choices: [] }, /no list of models/],
  ['a number', '7', /no list of models/],
  ['no models', { object: 'list', data: [] }, /has no models/],
  ['a model without an id', { data: [{ id: 'a' }, { object: 'model' }] }, /at position 1 has no id/],
  ['a name for the terminal', { data: [{ id: 'a\u001b[2J' }] }, /at position 0 has no id/],
]
for (const [title, content, message] of refused)
  test.serial(`exit 1: ${title}`, async t => {
    const { exitCode, stdout, stderr } = await run('--provider', 'openai', await save(content))
    t.deepEqual([exitCode, stdout], [1, ''])
    t.regex(stderr, message)
  })

test.serial('exit 1: an unknown provider, a missing file and wrong arguments', async t => {
  const path = await save(openAiList(['a']))
  const cases: [args: string[], message: RegExp][] = [
    [['--provider', 'opneai', path], /no provider `opneai`; there are .*openai, anthropic/],
    [['--provider', 'openai', join(folder, 'none.json')], /none\.json: ENOENT/],
    [[path], /--provider is required/],
    [['--provider', 'openai', path, '--file', path], /--file is given twice/],
    [['--provider', 'openai', path, path], /Unknown command/],
  ]
  for (const [args, message] of cases) {
    const { exitCode, stderr } = await run(...args)
    t.is(exitCode, 1)
    t.regex(stderr, message)
  }
})
