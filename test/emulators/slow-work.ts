import { randomUUID } from 'node:crypto'
import sharp from 'sharp'
import { type SoundFormat, soundTypes } from '../../shared/kinds/sound.ts'
import { meshFile, mtlFile, objFile, textureFile } from '../../shared/providers/sandbox/media/mesh-files.ts'
import { soundFile } from '../../shared/providers/sandbox/media/sounds.ts'
import { videoFile } from '../../shared/providers/sandbox/media/video-file.ts'
import { Emulator, type Recorded, type Reply } from './emulator.ts'

// biome-ignore lint/suspicious/noExplicitAny: bodies are checked by each provider's rules before they are read
export type Json = any

/** One piece of slow work at an emulated provider. */
export type Work = { id: string; status: 'pending' | 'finished' | 'failed'; polls: number; body: Json; path: string }

/** `autoFinish`: work finishes at this poll, without the test's help. */
export type WorkOptions = { autoFinish?: number; port?: number }

/** An emulated provider of slow work; `finish` and `fail` end one piece of work, or all that is pending. */
export type WorkEmulator = {
  emulator: Emulator
  url: string
  works: Map<string, Work>
  finish(id?: string): void
  fail(id?: string): void
  close(): Promise<void>
}

/** What one provider answers, given the work it has; `null`: no such address. */
type Provider = (request: Recorded, desk: Desk) => Reply | null

/** The work of one provider. */
export class Desk {
  readonly works = new Map<string, Work>()
  readonly #autoFinish: number
  /** Where the emulator is reached, for addresses of results. */
  url = ''

  constructor(autoFinish = Number.POSITIVE_INFINITY) {
    this.#autoFinish = autoFinish
  }

  add({ path, body }: Recorded): Work {
    const work: Work = { id: randomUUID(), status: 'pending', polls: 0, body, path }
    this.works.set(work.id, work)
    return work
  }

  poll(id: string): Work | undefined {
    const work = this.works.get(id)
    if (!work) return undefined
    work.polls += 1
    if (work.status === 'pending' && work.polls >= this.#autoFinish) work.status = 'finished'
    return work
  }

  end(status: 'finished' | 'failed', id?: string): void {
    for (const work of this.works.values())
      if (id === undefined ? work.status === 'pending' : work.id === id) work.status = status
  }
}

/** Starts a provider's emulator, which also serves result files at `/files/`. */
export async function startWork(
  provider: Provider,
  notFound: Reply,
  { autoFinish, port }: WorkOptions = {},
): Promise<WorkEmulator> {
  const desk = new Desk(autoFinish)
  const emulator = await Emulator.start(
    (request, response) => (fileReply(request) ?? provider(request, desk) ?? notFound)(request, response),
    port,
  )
  desk.url = emulator.url
  return {
    emulator,
    url: emulator.url,
    works: desk.works,
    finish: id => desk.end('finished', id),
    fail: id => desk.end('failed', id),
    close: () => emulator.close(),
  }
}

type File = [contentType: string, make: () => Buffer | Promise<Buffer>]
const fbxHeader = Buffer.from('Kaydara FBX Binary  \x00\x1a\x00', 'latin1')
const files: Record<string, File> = {
  'video.mp4': ['video/mp4', () => videoFile({ seconds: 1 })],
  'model.glb': ['model/gltf-binary', () => meshFile()],
  'model.fbx': ['application/octet-stream', () => fbxHeader],
  'model.obj': ['text/plain', () => objFile()],
  'model.mtl': ['text/plain', () => mtlFile({ texture: true })],
  'texture.png': ['image/png', () => textureFile()],
  'thumbnail.png': ['image/png', () => textureFile()],
}

/** `image-640x480.webp` and `sound-2.5.mp3` are made to measure. */
function fileOf(name: string): File | undefined {
  const [, width, height, type] = /^image-(\d+)x(\d+)(?:-\d+)?\.(png|jpeg|webp)$/.exec(name) ?? []
  if (type) return [`image/${type}`, () => imageFile(Number(width), Number(height), type as 'png')]
  const [, seconds, format] = /^sound-([\d.]+)\.(\w+)$/.exec(name) ?? []
  if (format) return [soundTypes[format as SoundFormat], () => soundFile(format as SoundFormat, Number(seconds))]
  return files[name]
}

type ImageType = 'png' | 'jpeg' | 'webp'
const made = new Map<string, Promise<Buffer>>()

function imageFile(width: number, height: number, type: ImageType): Promise<Buffer> {
  const name = `${width}x${height}.${type}`
  const image =
    made.get(name) ??
    sharp({ create: { width, height, channels: 3, background: '#456' } })
      .toFormat(type)
      .toBuffer()
  made.set(name, image)
  return image
}

function fileReply({ method, path }: Recorded): Reply | null {
  const file = method === 'GET' && path.startsWith('/files/') && fileOf(path.slice(path.lastIndexOf('/') + 1))
  if (!file) return null
  const [contentType, make] = file
  return async (_request, response) => {
    const bytes = await make()
    response.writeHead(200, { 'content-type': contentType, 'content-length': bytes.length }).end(bytes)
  }
}

/** Whether a text is an http(s) address. */
export function isWebUrl(value: unknown): boolean {
  return typeof value === 'string' && /^https?:/.test(value) && URL.canParse(value)
}

/** The first of the object's names that is not among `known`. */
export function unknownField(body: Json, known: readonly string[]): string | undefined {
  return Object.keys(body ?? {}).find(name => !known.includes(name))
}
