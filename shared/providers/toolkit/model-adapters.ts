import type { WorkKind, WorkKinds } from '../../kinds/index.ts'
import type { Protocol, QueuedAdapter, QueuedCall } from '../contract.ts'
import type { InputOptions, ModelInput } from './model-fields.ts'
import { faceSwapInput, lipsyncInput, meshInput, videoInput } from './model-input.ts'
import { imageOutput, meshOutput, soundOutput, videoOutput } from './model-output.ts'
import { imageInput, maxPieces, musicInput, sfxInput } from './model-sync-input.ts'

/** Builds the input of a model whose fields the deployment's traits name. */
export type BuildInput<K extends WorkKind> = (call: QueuedCall<K>) => Promise<ModelInput>
/** Reads a model's output; `field` names the main file where the trait `output_field` is set. */
export type ReadOutput<K extends WorkKind> = (json: unknown, field: string | null) => WorkKinds[K]['output']
/** Creates the adapter of one kind, which a provider serves by one interface to all its models. */
type CreateAdapter = <K extends WorkKind>(
  buildInput: BuildInput<K>,
  readOutput: ReadOutput<K>,
  poll?: QueuedAdapter<K>['poll'],
) => QueuedAdapter<K>

/** Poll intervals of queued work. */
export const queuedPolling = { firstMs: 2_000, maxMs: 10_000 }
/** Poll intervals of work that a synchronous request waits for. */
const syncPolling = { firstMs: 300, maxMs: 2_000 }

/** The adapters for the kinds that every provider with one interface to many models serves. */
export function modelAdapters(adapter: CreateAdapter, options: InputOptions) {
  return {
    queued: {
      video: adapter(call => videoInput(call, options), videoOutput),
      lipsync: adapter(call => lipsyncInput(call, options), videoOutput),
      face_swap: adapter(call => faceSwapInput(call, options), videoOutput),
      mesh: adapter(call => meshInput(call, options), meshOutput),
    },
    synchronous: {
      image: { ...adapter(call => imageInput(call, options), imageOutput, syncPolling), maxPieces },
      music: adapter(call => musicInput(call, options), soundOutput, syncPolling),
      sfx: adapter(call => sfxInput(call, options), soundOutput, syncPolling),
    },
  } satisfies Pick<Protocol, 'queued' | 'synchronous'>
}
