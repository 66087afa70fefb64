import type { Clock } from '../../../base/time.ts'
import type { QueuedKind } from '../../../kinds/index.ts'
import type { ProviderFile } from '../../../kinds/media.ts'
import type { MeshRole } from '../../../kinds/mesh.ts'
import { realtime } from '../../adapters/openai/realtime.ts'
import type { Operation, Protocol } from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'
import { sandboxCatalog } from './avatars.ts'
import { meshFile, mtlFile, objFile, textureFile } from './mesh-files.ts'
import { type SimulatedWork, simulateWork } from './simulated-work.ts'
import { createSyncMedia } from './sync-media.ts'
import { videoFile } from './video-file.ts'

/**
 * The media provider of test keys. `upstream.ts` serves the direct kinds in OpenAI's dialect. Queued work is complete a
 * second after its start, and synchronous media immediately, unless the text has directives (`directives.ts`).
 * `firstByteTimeoutMs`: maximum delay of a response.
 */
export function createSandboxProtocol(clock: Clock, firstByteTimeoutMs: number): Protocol {
  const adapter = <K extends QueuedKind>(work: SimulatedWork<K>) => simulateWork(work, clock)
  return {
    direct: {},
    queued: {
      video: adapter(video),
      lipsync: adapter(lipsync),
      face_swap: adapter(faceSwap),
      avatar: adapter(avatar),
      mesh: adapter(mesh),
    },
    synchronous: createSyncMedia(firstByteTimeoutMs),
    realtime: () => realtime,
    catalog: sandboxCatalog,
    failure: status => new ProviderError('server_error', 'The sandbox failed.', { status }),
  }
}

const charactersPerSecond = 15
const minSeconds = 0.1

const video: SimulatedWork<'video'> = {
  text: ({ prompt }) => prompt ?? '',
  remember: ({ input }) => clip(input.seconds, input.resolution, input.aspectRatio),
  finish: filmed,
}

const lipsync: SimulatedWork<'lipsync'> = {
  text: ({ prompt }) => prompt ?? '',
  remember: ({ input }) => clip(input.seconds, input.resolution, null),
  finish: filmed,
}

const faceSwap: SimulatedWork<'face_swap'> = {
  text: () => '',
  remember: ({ input }) => ({ ...clip(input.seconds, null, null), credits: Math.ceil(input.seconds) }),
  finish: filmed,
}

const avatar: SimulatedWork<'avatar'> = {
  text: ({ script }) => script ?? '',
  remember: ({ input: { script, resolution, aspectRatio }, sources }) => {
    const spoken = script === null ? sources.get('audio_url')?.durationS : script.length / charactersPerSecond
    return clip(spoken ?? 0, resolution, aspectRatio)
  },
  finish: filmed,
}

const mesh: SimulatedWork<'mesh'> = {
  text: ({ prompt }) => prompt ?? '',
  remember: ({ input }) => ({ texture: input.texture }),
  finish: async ({ texture }) => {
    const options = { texture: texture === true }
    const picture = { bytes: textureFile(), contentType: 'image/png' }
    const files: ProviderFile<MeshRole>[] = [
      { role: 'glb', bytes: meshFile(options), contentType: 'model/gltf-binary' },
      { role: 'obj', bytes: objFile(), contentType: 'model/obj' },
      { role: 'mtl', bytes: mtlFile(options), contentType: 'model/mtl' },
      { role: 'thumbnail', ...picture },
    ]
    if (options.texture) files.push({ role: 'texture', ...picture })
    return { output: { files, durationS: null }, invoice: { seconds: null, credits: null } }
  },
}

/** The parameters of a finished video: its duration to the millisecond and its frame size. */
function clip(seconds: number, resolution: string | null, aspectRatio: string | null): Operation {
  const rounded = Math.max(minSeconds, Math.round(seconds * 1000) / 1000)
  return { seconds: rounded, ...frameOf(resolution, aspectRatio), credits: null }
}

const usualSide = 720
const sideOfName: { [name: string]: number } = { '2k': 1_440, '4k': 2_160, '8k': 2_160 }

/** The pixels of a resolution such as 720p, which names the shorter side; 16:9 by default. */
function frameOf(resolution: string | null, aspectRatio: string | null): { width: number; height: number } {
  const side = resolution === null ? usualSide : (sideOfName[resolution] ?? Number.parseInt(resolution, 10))
  const [wide, high] = (aspectRatio ?? '16:9').split(':').map(Number) as [number, number]
  const short = Math.min(wide, high)
  const even = (pixels: number) => Math.round(pixels / 2) * 2
  return { width: even((side * wide) / short), height: even((side * high) / short) }
}

async function filmed({ seconds, width, height, credits }: Operation) {
  const size = { seconds: Number(seconds), width: Number(width), height: Number(height) }
  const file = { role: 'video', bytes: await videoFile(size), contentType: 'video/mp4' } as const
  return {
    output: { files: [file], durationS: size.seconds },
    invoice: { seconds: size.seconds, credits: typeof credits === 'number' ? credits : null },
  }
}
