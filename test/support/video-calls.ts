import { GatewayError } from '../../shared/base/errors.ts'
import type { VideoInput } from '../../shared/kinds/video.ts'
import {
  type Protocol,
  ProviderError,
  type QueuedAdapter,
  type QueuedCall,
  type Source,
} from '../../shared/providers/contract.ts'
import type { Recorded } from '../emulators/emulator.ts'
import { callOf, sourceOf } from './queued-adapter.ts'

export const picture = sourceOf('https://files.test/a.png', 'image/png')
export const other = sourceOf('https://files.test/b.jpg', 'image/jpeg', null, Buffer.from('other'))
export const clip = sourceOf('https://files.test/a.mp4', 'video/mp4', 4.2)

/** A file that only its bytes can tell of: the provider cannot reach the gateway. */
export function inlined(contentType: string, bytes: Buffer<ArrayBuffer>): Source {
  const source = sourceOf('https://unreachable.test/', contentType, null, bytes)
  return { ...source, link: async () => `data:${contentType};base64,${bytes.toString('base64')}` }
}

export function videoInput(input: Partial<VideoInput> = {}): VideoInput {
  const none = { resolution: null, aspectRatio: null, negativePrompt: null, seed: null, audio: null }
  return { mode: 'text', prompt: 'A heron on a lake', seconds: 5, ...none, ...input }
}

/** A video call of a catalog model; `changes` stand for a row of the operator's own. */
export function videoCall(
  provider: string,
  model: string,
  input: Partial<VideoInput> = {},
  sources: Record<string, Source> = {},
  changes: Partial<QueuedCall<'video'>['target']['deployment']> = {},
): QueuedCall<'video'> {
  const call = callOf<'video'>(provider, model, videoInput(input), sources)
  return { ...call, target: { ...call.target, deployment: { ...call.target.deployment, ...changes } } }
}

export function videoAdapter(protocol: Protocol): QueuedAdapter<'video'> {
  const adapter = protocol.queued?.video
  if (!adapter) throw new Error('this protocol makes no videos')
  return adapter
}

/** The one POST that an emulator got. */
export function created(requests: Recorded[]): Recorded {
  const posts = requests.filter(({ method }) => method === 'POST')
  if (posts.length !== 1) throw new Error(`expected one create request, got ${posts.length}`)
  return posts[0]!
}

/** The field that a start is refused for, before anything is sent. */
export async function refusedField(work: Promise<unknown>): Promise<string | null> {
  const error = await work.then(
    () => null,
    error => error,
  )
  if (!(error instanceof GatewayError) || error.code !== 'unsupported_capability' || error.status !== 400)
    throw new Error(`expected a refusal, got ${error}`)
  return error.param
}

/** The ProviderError that work ends with. */
export async function providerFault(work: Promise<unknown>): Promise<ProviderError> {
  const error = await work.then(
    () => null,
    error => error,
  )
  if (!(error instanceof ProviderError)) throw new Error(`expected a ProviderError, got ${error}`)
  return error
}
