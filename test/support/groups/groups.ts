import { globSync } from 'node:fs'
import { join } from 'node:path'

const tests = join(import.meta.dirname, '../..')

/**
 * Test files that run in one process, test/groups/<name>.test.ts, by their paths in `test`: a process per file costs more
 * than most of them do. A file stays alone when it measures its process, starts others, changes what all share, or takes long.
 */
const patterns = {
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
    'sandbox/*.test.ts',
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
export type Group = keyof typeof patterns

export function filesOf(group: Group): string[] {
  return globSync(patterns[group], { cwd: tests }).sort()
}

/** The files of `npm test`: each group runs in one process, each other file in its own. Throws if two groups have one. */
export function quickSet(): string[] {
  const files = (Object.keys(patterns) as Group[]).flatMap(filesOf)
  const grouped = new Set(files)
  const twice = files.filter((file, i) => files.indexOf(file) !== i)
  if (twice.length > 0) throw new Error(`in more than one group: ${twice.join(', ')}`)
  const all = globSync('**/*.test.ts', { cwd: tests, exclude: ['clients/**', 'slow/**'] })
  return all.filter(file => !grouped.has(file)).map(file => join('test', file))
}
