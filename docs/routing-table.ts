// Writes the table of docs/routing.md: what each mode chooses of the shipped catalog for some usual requests.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadCatalog } from '../shared/catalog/catalog.ts'
import { modes } from '../shared/keys/policy.ts'
import { type ChatRequest, chatRequest } from '../shared/kinds/chat.ts'
import { unknownFigures } from '../shared/providers/health.ts'
import { protocols } from '../shared/providers/protocols.ts'
import { chatFeatures } from '../shared/routing/features.ts'
import type { RoutingInputs, RoutingPolicy } from '../shared/routing/options.ts'
import { route } from '../shared/routing/router.ts'

export const page = join(import.meta.dirname, 'routing.md')
const markers = { begin: '<!-- table: node docs/routing-table.ts -->', end: '<!-- end of table -->' }

const python = `Why does this fail with "list index out of range", and how do I fix it?

\`\`\`python
def pairs(items):
    result = []
    for i in range(len(items)):
        result.append((items[i], items[i + 1]))
    return result
\`\`\``
const clause = `Either party may terminate this agreement for cause upon thirty days' written notice of a material breach,
unless the breach is cured within that period; the obligations of confidentiality survive termination for five years. `
const look = { type: 'function', function: { name: 'get_weather', parameters: { type: 'object', properties: {} } } }
const city = { type: 'object', properties: { name: { type: 'string' }, population: { type: 'integer' } } }
const photo = { type: 'image_url', image_url: { url: 'https://example.com/photo.jpg' } }
const sound = { type: 'input_audio', input_audio: { data: 'A'.repeat(80_000), format: 'wav' } }

/** Usual requests, each the content of one user message and what else its body has. */
const requests: [title: string, content: unknown, more?: object][] = [
  ['Small talk: “Hi, how are you?”', 'Hi, how are you?'],
  ['A fact: “What is the capital of Australia?”', 'What is the capital of Australia?'],
  ['Translating a sentence', 'Translate into French: The meeting has been moved to Thursday at three o’clock.'],
  ['An email', 'Write a short, friendly email that moves our meeting from Tuesday to Thursday afternoon.'],
  ['Summarising two pages', `Summarise this in three sentences:\n\n${clause.repeat(25)}`],
  ['Writing a function', 'Write a TypeScript function that merges two sorted arrays, with tests.'],
  ['Finding a bug', python],
  [
    'Designing a system',
    'Design a rate limiter for an API served by many processes on several continents. Compare token bucket and sliding window, analyze what happens when the store is away, and justify the trade-offs.',
  ],
  [
    'Analysing a contract of 20 pages',
    `Analyze the risks for the supplier in this contract, clause by clause, and propose amendments.\n\n${clause.repeat(250)}`,
    { max_tokens: 4_000 },
  ],
  [
    'A word problem',
    'A train leaves at 9:40 and travels 210 km at 84 km/h, stops for 12 minutes, then goes 90 km at 60 km/h. When does it arrive?',
  ],
  ['A proof', 'Prove that there are infinitely many primes congruent to 3 modulo 4.'],
  [
    'A hard proof, thinking asked for',
    'Let f be a continuous real function with f(x + y) = f(x) + f(y) + xy for all x, y. Prove step by step what f can be, and derive the integral of f over [0, 1].',
    { reasoning_effort: 'high' },
  ],
  ['Tools', 'What is the weather in Oslo, and should I take an umbrella?', { tools: [look] }],
  [
    'JSON schema',
    'Describe Oslo.',
    { response_format: { type: 'json_schema', json_schema: { name: 'city', schema: city } } },
  ],
  ['An image in', [{ type: 'text', text: 'What is in this picture?' }, photo]],
  ['Sound in', [{ type: 'text', text: 'What does she say?' }, sound]],
  ['200,000 tokens of context', `When does confidentiality end?\n\n${clause.repeat(3_300)}`],
  ['An image out', 'A red square on a white table', { modalities: ['image', 'text'] }],
  ['Speech out', 'Say good morning.', { modalities: ['audio', 'text'], audio: { voice: 'alloy', format: 'mp3' } }],
]

const policy: RoutingPolicy = {
  environment: 'live',
  mode: 'balanced',
  allowlist: null,
  deniedTiers: null,
  provider: null,
  ownKeys: null,
  keyId: '',
}

/** Every provider that takes a key is configured, and nothing is known yet of how any of them does. */
function freshWorld(): RoutingInputs {
  const catalog = loadCatalog()
  const upstreams: RoutingInputs['upstreams'] = {
    ownTargets: () => [],
    isConfigured: provider => catalog.providers.get(provider)!.auth !== 'none',
    adapter(kind, { provider }) {
      const protocol = protocols[provider.protocol]
      const adapter = protocol?.direct[kind]
      return adapter ? { adapter, protocol: protocol! } : null
    },
  }
  return {
    catalog,
    upstreams,
    figures: () => unknownFigures,
    healthRevision: () => null,
    marginPpm: 50_000n,
    maxPauseMs: 0,
    // A day on which none of the shipped models is retired.
    clock: { now: () => 0 },
  }
}

/** The table, as Markdown. */
export function routingTable(): string {
  const world = freshWorld()
  const rows = requests.map(([title, content, more]) => {
    const cells = modes.map(mode =>
      cell(world, { model: 'auto', mode, messages: [{ role: 'user', content }], ...more }),
    )
    return `| ${title} | ${cells[0]!.difficulty} | ${cells.map(({ text }) => text).join(' | ')} |`
  })
  return ['| Request | Difficulty | `cost` | `balanced` | `quality` |', '|---|---|---|---|---|', ...rows].join('\n')
}

/** What a request is given: the model, its quality for the task, and USD for 1,000 such requests. */
function cell(world: RoutingInputs, body: object): { difficulty: string; text: string } {
  const request = chatRequest.parse(body) as ChatRequest
  const features = chatFeatures(request, Buffer.byteLength(JSON.stringify(body)))
  const decision = route(world, { policy, kind: 'chat', request: request as never, features }, 'log')
  const { model, provider } = decision.targets[0]!
  const candidate = decision.candidates.find(one => one.model === model.id && one.provider === provider.name)!
  const usd = (candidate.estimatedCostNano! / 1e6).toPrecision(2)
  const place = model.owned_by === provider.name ? model.id : `${model.id} at ${provider.name}`
  return { difficulty: features.difficulty().toFixed(2), text: `${place} (${candidate.quality}) $${Number(usd)}` }
}

/** The page with the table in its place. Throws where it has no place for one. */
export function withTable(text: string): string {
  const begin = text.indexOf(markers.begin)
  const end = text.indexOf(markers.end)
  if (begin < 0 || end < begin) throw new Error('the page has no markers for the table')
  return `${text.slice(0, begin + markers.begin.length)}\n\n${routingTable()}\n\n${text.slice(end)}`
}

if (import.meta.main) writeFileSync(page, withTable(readFileSync(page, 'utf8')))
