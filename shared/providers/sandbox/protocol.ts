import type { Clock } from '../../base/time.ts'
import type { QueuedKind } from '../../kinds/index.ts'
import type { ProviderFile } from '../../kinds/media.ts'
import type { MeshRole } from '../../kinds/mesh.ts'
import { type Operation, type Protocol, ProviderError } from '../contract.ts'
import { realtime } from '../openai/realtime.ts'
import { sandboxCatalog } from './avatars.ts'
import { meshFile, mtlFile, objFile, textureFile } from './glb.ts'
import { createInstant } from './instant.ts'
import { videoFile } from './mp4.ts'
import { slowWork, type Work } from './slow.ts'

/**
 * The provider of test keys for media. Its direct kinds are spoken in OpenAI's dialect, see `upstream.ts`. Slow work is
 * ready a second after its start, and what is waited for at once, unless magic words in the text say otherwise (`magic.ts`).
 * `firstByteTimeoutMs`: how long an answer may be waited for.
 */
export function createSandboxProtocol(clock: Clock, firstByteTimeoutMs: number): Protocol {
  const adapter = <K extends QueuedKind>(work: Work<K>) => slowWork(work, clock)
  return {
    direct: {},
    queued: {
      video: adapter(video),
      lipsync: adapter(lipsync),
      face_swap: adapter(faceSwap),
      avatar: adapter(avatar),
      mesh: adapter(mesh),
    },
    instant: createInstant(firstByteTimeoutMs),
    realtime: () => realtime,
    catalog: sandboxCatalog,
    failure: status => new ProviderError('server_error', 'The sandbox failed.', { status }),
  }
}

const charactersPerSecond = 15
const shortestSeconds = 0.1

const video: Work<'video'> = {
  text: ({ prompt }) => prompt ?? '',
  remember: ({ input }) => clip(input.seconds, input.resolution, input.aspectRatio),
  finish: filmed,
}

const lipsync: Work<'lipsync'> = {
  text: ({ prompt }) => prompt ?? '',
  remember: ({ input }) => clip(input.seconds, input.resolution, null),
  finish: filmed,
}

const faceSwap: Work<'face_swap'> = {
  text: () => '',
  remember: ({ input }) => ({ ...clip(input.seconds, null, null), credits: Math.ceil(input.seconds) }),
  finish: filmed,
}

const avatar: Work<'avatar'> = {
  text: ({ script }) => script ?? '',
  remember: ({ input: { script, resolution, aspectRatio }, sources }) => {
    const spoken = script === null ? sources.get('audio_url')?.durationS : script.length / charactersPerSecond
    return clip(spoken ?? 0, resolution, aspectRatio)
  },
  finish: filmed,
}

const mesh: Work<'mesh'> = {
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

/** What a video's end has to know: its length to the millisecond and its frame. */
function clip(seconds: number, resolution: string | null, aspectRatio: string | null): Operation {
  const rounded = Math.max(shortestSeconds, Math.round(seconds * 1000) / 1000)
  return { seconds: rounded, ...frameOf(resolution, aspectRatio), credits: null }
}

const usualSide = 720
const sideOfName: { [name: string]: number } = { '2k': 1_440, '4k': 2_160, '8k': 2_160 }

/** The pixels of a resolution such as 720p, which names the shorter side; 16:9 where no aspect ratio is asked for. */
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
