import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import type { Deployment, ModelRow } from '../../../shared/catalog/schema.ts'
import type { ImageInput } from '../../../shared/kinds/image.ts'
import type { SyncKind } from '../../../shared/kinds/index.ts'
import type { MusicInput } from '../../../shared/kinds/music.ts'
import type { SfxInput } from '../../../shared/kinds/sfx.ts'
import type {
  Operation,
  PollReport,
  Protocol,
  QueuedAdapter,
  Source,
  SyncAdapter,
  SyncCall,
} from '../../../shared/providers/contract.ts'
import type { ProviderError } from '../../../shared/providers/provider-error.ts'
import { json } from '../../emulators/emulator.ts'
import type { WorkEmulator } from '../../emulators/slow-work.ts'
import { described } from '../jobs/operator-models.ts'
import { operatorSounds } from '../jobs/operator-sounds.ts'
import { connectionTo, refusedField } from '../jobs/queued-adapter.ts'
import { syncCallOf } from './adapter.ts'
import { imageInput } from './image-calls.ts'

/** Calls of models whose fields are named by traits, and what becomes of them. */

const catalog = loadCatalog()

function callAt<K extends SyncKind>(
  row: ModelRow,
  input: SyncCall<K>['input'],
  sources: Record<string, Source>,
): SyncCall<K> {
  const deployment = row.providers[0]!
  const target = { model: row, deployment, provider: catalog.providers.get(deployment.provider)! }
  const { signal } = new AbortController()
  const map = new Map(Object.entries(sources))
  return { target, jobId: 'img_1', attempt: 1, input, sources: map, callbackUrl: null, signal }
}

/** An image of a shipped model. */
export function imageCall(provider: string, model: string, more: Partial<ImageInput> = {}, sources = {}) {
  return syncCallOf<'image'>(provider, model, imageInput(more, sources), sources)
}

/** An image of a model that an operator describes. */
export function imageCallWith(
  provider: string,
  upstreamModel: string,
  traits: NonNullable<Deployment['traits']>,
  more: Partial<ImageInput> = {},
  sources = {},
) {
  const price = { unit: 'image', usd: '0.1' } as const
  const row = described('drawn', provider, upstreamModel, { type: 'image', kind: {}, price, traits })
  return callAt<'image'>(row, imageInput(more, sources), sources)
}

const operatorRow = (model: string) => operatorSounds.find(({ id }) => id === model)!

/** Music of one of `operatorSounds`, in MP3. */
export function musicCall(model: string, more: Partial<MusicInput> = {}) {
  const usual = { prompt: 'a slow waltz', lyrics: null, durationS: null, instrumental: false, format: 'mp3' } as const
  return callAt<'music'>(operatorRow(model), { ...usual, ...more }, {})
}

/** A sound effect of one of `operatorSounds`, in MP3. */
export function sfxCall(model: string, more: Partial<SfxInput> = {}) {
  return callAt<'sfx'>(operatorRow(model), { prompt: 'a door', durationS: null, format: 'mp3', ...more }, {})
}

/** One adapter that has its work looked at, and its emulator. */
export function syncMediaBench<K extends SyncKind>(
  provider: string,
  protocol: Protocol,
  kind: K,
  start: () => Promise<WorkEmulator>,
) {
  const adapter = protocol.synchronous![kind] as SyncAdapter<K> & QueuedAdapter<K>
  const using = async <T>(
    body: (world: WorkEmulator, connection: ReturnType<typeof connectionTo>) => Promise<T>,
  ): Promise<T> => {
    const world = await start()
    try {
      return await body(world, connectionTo(provider, protocol, world.url))
    } finally {
      await world.close()
    }
  }
  return {
    adapter,
    using,
    /** The request that starts the work, and how it ends. */
    done: (call: SyncCall<K>) =>
      using(async ({ emulator, finish }, connection) => {
        const operation = await adapter.start(call, connection, null)
        const request = emulator.requests.at(-1)!
        finish()
        return { request, report: await adapter.check(operation, connection) }
      }),
    /** The field that a call is refused for, before anything is sent. */
    refused: (call: SyncCall<K>) =>
      using(async ({ emulator }, connection) => {
        const field = await refusedField(adapter.start(call, connection, null))
        if (emulator.requests.length > 0) throw new Error('something was sent')
        return field
      }),
    /** What a look makes of these answers, one to each of its requests. */
    shown: (operation: Operation, ...answers: unknown[]): Promise<PollReport<K>> =>
      using(async ({ emulator }, connection) => {
        emulator.next(...answers.map(answer => json(200, answer)))
        return adapter.check(operation, connection)
      }),
  }
}

/** What finished work gave. Throws for any other report. */
export function outputOf<K extends SyncKind>(report: PollReport<K>) {
  if (report.status !== 'completed') throw new Error(`expected completed, got ${JSON.stringify(report)}`)
  return report.output
}

/** Why work failed. Throws for any other report. */
export function reasonOf(report: PollReport<SyncKind>): ProviderError['reason'] {
  if (report.status !== 'failed') throw new Error(`expected failed, got ${JSON.stringify(report)}`)
  return report.error.reason
}
