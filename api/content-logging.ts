import type { ContentCopy } from '../shared/content-log/content-copy.ts'
import { queuedKinds, syncKinds } from '../shared/kinds/index.ts'
import { kindOf } from './log-refusal.ts'
import type { State } from './state.ts'

/** The kinds whose requests are jobs or files of their own, which keep their input. */
const keptElsewhere: ReadonlySet<string> = new Set(['async', 'batch'])
/** The kinds whose input refers to files, and whose output is files. */
const media: ReadonlySet<string> = new Set(Object.keys({ ...syncKinds, ...queuedKinds }))

/** Begins the copy of a request of a key whose input and output is logged, if its endpoint runs a model. */
export function copyContent({ services, endpoint, apiKey, client }: State): void {
  const kind = kindOf(endpoint)
  if (kind === undefined || keptElsewhere.has(kind)) return
  client.copy = services.contentLog.open(apiKey.policy.contentLogging!, { withOutput: !media.has(kind) })
}

/** Logs the input and output of a request that is over. `refusalId`: its id in the request log, if it was refused. */
export function logContent(state: State, copy: ContentCopy, status: number, refusalId: string | null): void {
  const { services, endpoint, apiKey, logFields, failure, startedMs, response } = state
  const named = failure?.headers['x-generation-id'] ?? response.getHeader('x-generation-id')
  const id = logFields.generationId ?? named ?? refusalId
  const kind = kindOf(endpoint)!
  const failed = status >= 400 || logFields.errorCode != null
  const input = inputOf(state)
  services.contentLog.addWanted(copy, {
    policy: apiKey.policy,
    kind,
    id,
    failed,
    startedMs,
    input,
    hasFiles: media.has(kind),
  })
}

/** The JSON of a request; of a form its fields, without the addresses of its files. Null if none was read. */
function inputOf({ raw, body, uploads }: State): Buffer | null {
  if (uploads.length === 0) return raw ?? null
  const isFile = (value: unknown) =>
    typeof value === 'string' && uploads.some(({ file }) => value.includes(file.storageKey))
  return Buffer.from(JSON.stringify(body, (_, value) => (isFile(value) ? '[file removed]' : value)) ?? '')
}
