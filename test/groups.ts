import { globSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const tests = import.meta.dirname
const root = join(tests, '..')
/** The folder, and in front of the groups, of what `npm run test:slow` runs. */
const slow = 'slow'
/** AVA starts a process per file, so each group has a file, which runs the others. */
const entries = 'test/.groups'

/**
 * The groups: folders, or files, in `test` that run in one process, because a process per file costs more than most files do.
 * A new file in one of these folders belongs to its group.
 */
const groups: Record<string, string[]> = {
  accounts: ['alerts', 'keys', 'payments'],
  api: ['api'],
  batches: ['batches', 'retention'],
  chat: ['chat', 'engine', 'kinds'],
  'chat-streams': ['chat/streams'],
  'chat-translation': ['chat/translation'],
  dashboard: ['content-log', 'dashboard'],
  delayed: ['delayed', 'queues'],
  deploy: ['deploy'],
  files: ['files'],
  foundation: ['base', 'catalog', 'io', 'sandbox'],
  jobs: ['jobs'],
  media: ['media'],
  'media-providers': [
    'providers/akool',
    'providers/deepgram',
    'providers/elevenlabs',
    'providers/fal',
    'providers/heygen',
    'providers/kling',
    'providers/magic-hour',
    'providers/meshy',
    'providers/ocr',
    'providers/rankings',
    'providers/replicate',
    'providers/runway',
    'providers/sync',
  ],
  metrics: ['metrics', 'traces'],
  'model-providers': [
    'providers/anthropic',
    'providers/azure',
    'providers/bedrock',
    'providers/cohere',
    'providers/gemini',
    'providers/identities',
    'providers/open-weights',
    'providers/perplexity',
    'providers/profile',
    'providers/vertex',
  ],
  openai: ['providers/openai', 'providers/openrouter'],
  realtime: ['realtime'],
  responses: ['responses'],
  routing: ['feedback', 'limiter', 'routing'],
  'slow-chat': ['slow/chat/faults', 'slow/chat/streams'],
  'slow-dashboard': ['slow/dashboard'],
  'slow-ledger': [
    'slow/payments',
    'slow/wallet/ledger',
    'slow/wallet/money-property.test.ts',
    'slow/wallet/money.test.ts',
    'slow/wallet/monstrous-usage.test.ts',
  ],
  'slow-operator': [
    'slow/deploy/apply.test.ts',
    'slow/deploy/doctor.test.ts',
    'slow/deploy/migrations.test.ts',
    'slow/deploy/operator.test.ts',
  ],
  'slow-races': [
    'slow/api/deleted-meanwhile.test.ts',
    'slow/batches/races.test.ts',
    'slow/jobs/races.test.ts',
    'slow/keys/lock-order.test.ts',
    'slow/realtime/deaths.test.ts',
  ],
  'slow-routing': ['slow/providers/profile', 'slow/routing'],
  wallet: ['wallet'],
  'wallet-ledger': ['wallet/ledger'],
  webhooks: ['guardrails', 'log-exports', 'webhooks'],
}

/**
 * Files of these folders with a process of their own, as each file of a folder without a group has: they measure their
 * process, start many others, or change what all share.
 */
const alone = new Set([
  'api/bad-input.test.ts',
  'api/json-bounds.test.ts',
  'dashboard/accounts-guard.test.ts',
  'dashboard/accounts.test.ts',
  'slow/deploy/docs.test.ts',
  'slow/deploy/stack.test.ts',
  'io/image-bombs.test.ts',
  'io/storage.test.ts',
  'kinds/tokenizer.test.ts',
  // So long that others must run beside them.
  'slow/dashboard/mishaps.test.ts',
  'slow/dashboard/pages.test.ts',
  'slow/dashboard/reach.test.ts',
  'slow/dashboard/request-content.test.ts',
  'slow/dashboard/story.test.ts',
  'slow/dashboard/traps.test.ts',
  'slow/dashboard/walks.test.ts',
])

/** What takes longest begins first, or the run would end with one process and an idle machine. */
const longest = [
  // `npm test`
  'chat',
  'api',
  'jobs',
  'realtime',
  'wallet-ledger',
  'chat-streams',
  'chat-translation',
  'accounts',
  'openai',
  'responses',
  'media',
  'routing',
  'media-providers',
  'model-providers',
  'dashboard',
  'batches',
  'delayed',
  'foundation',
  'deploy',
  'wallet',
  'webhooks',
  // `npm run test:slow`
  'slow-dashboard',
  'slow/dashboard/reach.test.ts',
  'slow/api/bounded-requests.test.ts',
  'slow/dashboard/pages.test.ts',
  'slow-chat',
  'slow-ledger',
  'slow/docs/site.test.ts',
  'slow/deploy/docs.test.ts',
  'slow/deploy/previous-release.test.ts',
  'slow-operator',
  'slow-races',
  'slow-routing',
  'slow/keys/keys-in-force.test.ts',
  'slow/dashboard/traps.test.ts',
  'slow/api/bounded-memory.test.ts',
  'slow/base/config-at-start.test.ts',
  'slow/deploy/rolling-restart.test.ts',
  'slow/dashboard/mishaps.test.ts',
  'slow/dashboard/request-content.test.ts',
  'slow/dashboard/walks.test.ts',
  'slow/api/nasty-values.test.ts',
  'slow/queues/lost-locks.test.ts',
  'slow/dashboard/story.test.ts',
  'slow/chat/usage-classes.test.ts',
  'slow/api/openapi-fuzz.test.ts',
  'slow/deploy/operator-path.test.ts',
  'slow/deploy/redis-shards.test.ts',
  'slow/responses/background-crash.test.ts',
  'slow/realtime/drain.test.ts',
  'slow/wallet/files-in-requests.test.ts',
  'slow/wallet/small-wallets.test.ts',
  'slow/wallet/money-histories.test.ts',
  'slow/webhooks/workers.test.ts',
  'slow/realtime/leaks.test.ts',
]
const places = new Map(longest.map((name, place) => [join(tests, pathOf(name)), place]))

/** Compares two test files, by their absolute paths, for the order in which they begin. */
export function longestFirst(a: string, b: string): number {
  const placeOf = (path: string) => places.get(path) ?? longest.length
  return placeOf(a) - placeOf(b) || a.localeCompare(b)
}

/** The path of a group's file, or of a file, in `test`. */
function pathOf(name: string): string {
  return Object.hasOwn(groups, name) ? `.groups/${name}.test.ts` : name
}

/** The files of a group, by their paths in `test`. */
export function filesOf(group: string): string[] {
  const patterns = (groups[group] ?? []).map(name => (name.endsWith('.test.ts') ? name : `${name}/*.test.ts`))
  const files = globSync(patterns, { cwd: tests }).sort()
  return files.filter(file => !alone.has(file))
}

/**
 * AVA's arguments for those of the command line, where a group may be named as a file, and `slow` for all of
 * `npm run test:slow`; without a file they are all of `npm test`.
 */
export function avaArguments(args: string[]): string[] {
  const further: string[] = []
  for (const [i, arg] of args.entries()) {
    // In a group, a title begins with its file.
    if (arg === '-m' || arg === '--match') further.push(arg, `* › ${args[i + 1]}`)
  }
  const isNamed = (arg: string) => arg === slow || Object.hasOwn(groups, arg) || /^(\.\/)?test\/|\.ts$/.test(arg)
  if (!args.some(isNamed)) further.push(...quickSet())
  return [
    ...args.flatMap(arg => (arg === slow ? slowSet() : Object.hasOwn(groups, arg) ? entryOf(arg) : arg)),
    ...further,
  ]
}

/** Whether some of AVA's arguments are files that open the pages of the documentation, which take half a minute to build. */
export function opensDocumentation(args: string[]): boolean {
  return args.some(arg => /^(\.\/)?test\/(\*|(\.groups\/)?(nightly|slow)\b)/.test(arg))
}

/** The files of `npm test`. */
function quickSet(): string[] {
  const files = globSync('**/*.test.ts', { cwd: tests, exclude: ['clients/**', 'nightly/**', `${slow}/**`] })
  return inGroups(group => !isSlow(group), files)
}

/** The files of `npm run test:slow`. */
function slowSet(): string[] {
  return inGroups(isSlow, globSync(`${slow}/**/*.test.ts`, { cwd: tests }))
}

/** A set of files for AVA: one for each group, and those with a process of their own. */
function inGroups(isOfSet: (group: string) => boolean, files: string[]): string[] {
  const names = Object.keys(groups).filter(isOfSet)
  const grouped = new Set(names.flatMap(filesOf))
  return [...names.map(entryOf), ...files.filter(file => !grouped.has(file)).map(file => join('test', file))]
}

function isSlow(group: string): boolean {
  return group.startsWith(`${slow}-`)
}

/** Writes the file of each group. They are the same for every run. */
export async function writeEntries(): Promise<void> {
  await mkdir(join(root, entries), { recursive: true })
  for (const group of Object.keys(groups)) {
    const source = `import { runGroup } from '../support/run-group.ts'\n\nawait runGroup('${group}')\n`
    await writeFile(join(root, entryOf(group)), source)
  }
}

function entryOf(group: string): string {
  return `${entries}/${group}.test.ts`
}
