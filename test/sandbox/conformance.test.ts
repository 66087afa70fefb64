import { systemClock } from '../../shared/base/time.ts'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { type SyncKind, syncKinds } from '../../shared/kinds/index.ts'
import type { References } from '../../shared/kinds/media.ts'
import type { SoundFormat } from '../../shared/kinds/sound.ts'
import type { SyncKindRow } from '../../shared/kinds/sync-kind.ts'
import { servesMedia } from '../../shared/media/run.ts'
import type { ProviderConnection, SyncAdapter, SyncCall } from '../../shared/providers/contract.ts'
import { createSandboxProtocol } from '../../shared/providers/sandbox/media/protocol.ts'
import { providerFault } from '../support/jobs/queued-adapter.ts'
import { audioSource, imageSource, pdfSource } from '../support/jobs/sources.ts'
import { type SyncOutput, taken } from '../support/media/output.ts'
import { test } from '../support/test.ts'

/** What every adapter of media that is waited for must give, of the sandbox, for every model that it stands for. */

const catalog = loadCatalog()
const { synchronous } = createSandboxProtocol(systemClock, 60_000)
const connection = {} as ProviderConnection
const sources = new Map([
  ['audio_url', audioSource],
  ['input_references.0', imageSource],
  ['document.document_url', pdfSource],
])
const references: References = {
  audio_url: { storageKey: 'a', contentType: 'audio/mpeg', bytes: 5, filename: 'voice.mp3', durationS: 8 },
  'input_references.0': { storageKey: 'b', contentType: 'image/png', bytes: 5, filename: 'face.png', durationS: null },
  'document.document_url': {
    storageKey: 'c',
    contentType: 'application/pdf',
    bytes: 5,
    filename: 'report.pdf',
    durationS: null,
    pages: 3,
  },
}
const bodies: Record<SyncKind, object> = {
  image: { prompt: 'A fox' },
  speech: { input: 'Good day.' },
  transcription: { audio_url: 'https://files.example/voice.mp3' },
  music: { prompt: 'A waltz' },
  sfx: { prompt: 'A door' },
  rerank: { query: 'When does it open?', documents: ['It opens at nine.', 'Closed.'] },
  moderation: { input: 'Hello' },
  ocr: {
    document: { type: 'document_url', document_url: 'https://files.example/report.pdf' },
    document_annotation_format: { type: 'json_schema', json_schema: { name: 'report', schema: { type: 'object' } } },
  },
}

/** The field that directives are read in. */
const textFields: Record<SyncKind, string> = {
  image: 'prompt',
  speech: 'input',
  transcription: 'prompt',
  music: 'prompt',
  sfx: 'prompt',
  rerank: 'query',
  moderation: 'input',
  ocr: 'document_annotation_prompt',
}

type Made = { make(call: SyncCall<SyncKind>, connection: ProviderConnection): Promise<SyncOutput> }

/** The sandbox's answer for one model, and the format that sound must have. */
function ask(kind: SyncKind, id: string, more: object = {}, signal = new AbortController().signal) {
  const model = catalog.models.get(id)!
  const row = syncKinds[kind] as unknown as SyncKindRow<unknown, SyncCall<SyncKind>['input']>
  const needs = model.kind?.references_required ? { input_references: ['https://files.example/face.png'] } : {}
  const input = row.input(row.request.parse({ ...bodies[kind], ...needs, ...more }), model, references)
  const target = { model, ...catalog.targets(model)[0]! }
  const call = { target, jobId: 'x_sandbox0', attempt: 1, input, sources, callbackUrl: null, signal }
  const adapter = synchronous![kind] as SyncAdapter<SyncKind> as Made
  const format =
    kind === 'speech' || kind === 'music' || kind === 'sfx' ? (input as { format: SoundFormat }).format : null
  return { output: adapter.make(call as SyncCall<SyncKind>, connection), format }
}

for (const kind of Object.keys(syncKinds) as SyncKind[]) {
  const models = [...catalog.models.values()].filter(model => servesMedia(kind, model) && !model.disabled)
  test(`completed: ${kind} of every model, as any adapter gives it`, async t => {
    t.true(models.length > 0)
    for (const { id } of models) {
      const { output, format } = ask(kind, id)
      t.true((await taken(await output, format)).amount > 0, id)
    }
  })

  const text = textFields[kind]
  const id = models.find(model => model.kind?.prompt !== false)!.id

  test(`server_error and rate_limited: ${kind}, as the input asks`, async t => {
    t.is((await providerFault(ask(kind, id, { [text]: 'sandbox:fail' }).output)).reason, 'server_error')
    t.is((await providerFault(ask(kind, id, { [text]: 'sandbox:rate_limit' }).output)).reason, 'rate_limited')
  })

  test(`ended when its client has disconnected: ${kind}`, async t => {
    const left = new AbortController()
    const { output } = ask(kind, id, { [text]: 'sandbox:timeout' }, left.signal)
    left.abort()
    await t.throwsAsync(output)
  })
}
