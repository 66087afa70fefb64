import { globSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const tests = import.meta.dirname
const root = join(tests, '..')
/** AVA starts a process per file, so each group has a file, which runs the others. */
const entries = 'test/.groups'

/**
 * Test files that run in one process, by their paths in `test`: a process per file costs more than most of them do. A file
 * of no group has a process of its own: one that measures its process, starts others, or changes what all share.
 */
const groups: Record<string, string[]> = {
  accounts: ['keys/*.test.ts', 'payments/*.test.ts', 'alerts/*.test.ts'],
  'anthropic-and-gemini': ['providers/{anthropic,gemini}/*.test.ts', 'providers/profile/matrix.test.ts'],
  api: ['api/!(bad-input|json-bounds|multipart|openapi-document).test.ts'],
  batches: ['batches/*.test.ts'],
  chat: ['chat/!(messages-over-chat*|responses-over-chat*|reasoning-envelope|request-facts|[s-z]*).test.ts'],
  'chat-faults': ['chat/faults/*.test.ts'],
  dashboard: ['dashboard/!(accounts*|story).test.ts'],
  delayed: ['delayed/*.test.ts'],
  files: ['files/*.test.ts', 'io/media-length.test.ts'],
  jobs: ['jobs/!(prices).test.ts'],
  ledger: ['wallet/{ledger*,statement*,usage*,prune*}.test.ts'],
  media: ['media/!(answers|kinds|subtitles).test.ts'],
  'media-providers': [
    'providers/{akool,deepgram,elevenlabs,fal,heygen,kling,magic-hour,meshy,replicate,runway,sync}/*.test.ts',
  ],
  metrics: ['metrics/*.test.ts', 'traces/*.test.ts'],
  openai: ['providers/{openai,openrouter}/*.test.ts'],
  pure: [
    'api/{multipart,openapi-document}.test.ts',
    'base/*.test.ts',
    'catalog/*.test.ts',
    'chat/{messages-over-chat*,responses-over-chat*,reasoning-envelope,request-facts}.test.ts',
    'deploy/{architecture,bench,expand-only,packaging}.test.ts',
    'io/{fair-slots,lines,log,lua-script,mp3,safe-url,ssrf}.test.ts',
    'jobs/prices.test.ts',
    'providers/profile/!(matrix).test.ts',
    'media/{answers,kinds,subtitles}.test.ts',
    'realtime/{meters,spelling}.test.ts',
    'routing/{learned-offsets,output-history,read-words,retry-plan,router,routing-mode,task}.test.ts',
    'sandbox/!(mp4).test.ts',
    'webhooks/schedule.test.ts',
  ],
  realtime: ['realtime/{close,deaths,funds,gemini,hostile,live,money,openai}.test.ts'],
  'realtime-rules': ['realtime/!(close|deaths|funds|gemini|hostile|live|meters|money|openai|spelling).test.ts'],
  responses: ['responses/*.test.ts'],
  routing: [
    'limiter/*.test.ts',
    'routing/!(learned-offsets|output-history|read-words|retry-plan|router|routing-mode|task|tokenizer).test.ts',
  ],
  streams: ['chat/[s-z]*.test.ts'],
  wallet: ['wallet/!(ledger*|statement*|usage*|prune*).test.ts', 'io/redis-key-prefix.test.ts'],
  webhooks: ['webhooks/!(schedule|workers).test.ts'],
}

/** The files of a group, by their paths in `test`. */
export function filesOf(group: string): string[] {
  return globSync(groups[group] ?? [], { cwd: tests }).sort()
}

/** AVA's arguments for those of the command line, where a group may be named as a file; without a file they are all. */
export function avaArguments(args: string[]): string[] {
  const further: string[] = []
  for (const [i, arg] of args.entries()) {
    // In a group, a title begins with its file.
    if (arg === '-m' || arg === '--match') further.push(arg, `* › ${args[i + 1]}`)
  }
  if (!args.some(arg => Object.hasOwn(groups, arg) || /^(\.\/)?test\/|\.ts$/.test(arg))) further.push(...quickSet())
  return [...args.map(arg => (Object.hasOwn(groups, arg) ? entryOf(arg) : arg)), ...further]
}

/** The files of `npm test` for AVA: one for each group, and those of no group. Throws if two groups have the same file. */
function quickSet(): string[] {
  const files = Object.keys(groups).flatMap(filesOf)
  const grouped = new Set(files)
  const twice = files.filter((file, i) => files.indexOf(file) !== i)
  if (twice.length > 0) throw new Error(`in more than one group: ${twice.join(', ')}`)
  const all = globSync('**/*.test.ts', { cwd: tests, exclude: ['clients/**', 'slow/**'] })
  return [
    ...Object.keys(groups).map(entryOf),
    ...all.filter(file => !grouped.has(file)).map(file => join('test', file)),
  ]
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
