import type { VideoInput } from '../../../shared/kinds/video.ts'
import type { Protocol, QueuedAdapter, QueuedCall, Source } from '../../../shared/providers/contract.ts'
import type { Recorded } from '../../emulators/emulator.ts'
import { callOf } from './queued-adapter.ts'

/** A video call of a catalog model; `changes` stand for a row of the operator's own. */
export function videoCall(
  provider: string,
  model: string,
  input: Partial<VideoInput> = {},
  sources: Record<string, Source> = {},
  changes: Partial<QueuedCall<'video'>['target']['deployment']> = {},
): QueuedCall<'video'> {
  const none = { resolution: null, aspectRatio: null, negativePrompt: null, seed: null, audio: null }
  const whole: VideoInput = { mode: 'text', prompt: 'A heron on a lake', seconds: 5, ...none, ...input }
  const call = callOf<'video'>(provider, model, whole, sources)
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
