import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { Conversion } from './media-conversion.ts'
import type { MediaLength } from './media-file.ts'
import type { MediaMeasure } from './media-length.ts'
import { loadModule, type Module } from './media-module.ts'
import type { DocumentSize } from './pdf.ts'
import { maxPieceBytes, SharedPiece } from './shared-piece.ts'

/** `whole`: the content of a small file; others are read in pieces. */
type MediaTask = { job: number; bytes: number; whole: Uint8Array | null }
export type ToThread =
  | ({ kind: 'media'; maxCpuMs: number } & MediaTask)
  | ({ kind: 'conversion'; maxBytes: number; maxCpuMs: number } & MediaTask)
  | { kind: 'document'; job: number; bytes: Uint8Array; pagesOnly: boolean; maxCpuMs: number }
/** The answer to a `read`; null if the file cannot be read. */
export type ReadBytes = { kind: 'data'; bytes: Uint8Array | null }
export type FromThread =
  | { kind: 'begun'; job: number }
  | { kind: 'read'; job: number; start: number; end: number }
  | { kind: 'piece'; job: number; bytes: Uint8Array }
  | { kind: 'done'; job: number; result: Result }

/** What a job found. The bytes of a conversion are sent in pieces before it. */
type Result = MediaLength | DocumentSize | 'converted' | Exclude<Conversion, object> | null

/**
 * Runs inside a thread: measures and converts the files it receives, one after the other. The main thread reads media
 * files on its behalf, while it waits.
 */
export function serve(): void {
  const port = parentPort as MessagePort
  const piece = new SharedPiece((workerData as { piece: SharedArrayBuffer }).piece)
  const send = (message: FromThread) => port.postMessage(message)
  const run = async <T>(job: number, load: () => Promise<T>, work: (loaded: T) => Result | Promise<Result>) => {
    const loaded = await load()
    // What is loaded once is not the time of a file.
    send({ kind: 'begun', job })
    try {
      send({ kind: 'done', job, result: await work(loaded) })
    } catch {
      send({ kind: 'done', job, result: null })
    }
  }
  port.on('message', (message: ToThread) => {
    const { job } = message
    const whole = message.kind === 'document' ? null : message.whole
    const read = (start: number, end: number) =>
      whole ? whole.subarray(start, end) : piece.take(() => send({ kind: 'read', job, start, end }))
    if (message.kind === 'document')
      void run(
        job,
        () => import('./pdf.ts'),
        ({ pdfPages, pdfSize }) => (message.pagesOnly ? pdfPages(message.bytes) : pdfSize(message.bytes)),
      )
    else if (message.kind === 'media')
      void run(job, loadMeasures, async take => {
        const measured = take().length(message.bytes, read)
        if (!measured?.isDoubtful) return measured?.length ?? null
        const { module, heardLength } = await loadConversion()
        return heardLength(module, measured, { ...message, read })
      })
    else
      void run(job, loadConversion, ({ module, convertSound }) => {
        const converted = convertSound(module, { ...message, read })
        if (typeof converted === 'string') return converted
        const { flac } = converted
        for (let at = 0; at < flac.length; at += maxPieceBytes)
          send({ kind: 'piece', job, bytes: flac.slice(at, at + maxPieceBytes) })
        return 'converted'
      })
  })
}

/** Loads what gives a new `MediaMeasure` for each file, which it makes while no file waits for it. */
async function loadMeasures() {
  const { MediaMeasure } = await import('./media-length.ts')
  measureModule ??= loadModule('measure')
  const module = await measureModule
  return () => {
    const measure = spare ?? new MediaMeasure(module)
    spare = undefined
    setImmediate(() => {
      spare ??= new MediaMeasure(module)
    })
    return measure
  }
}
let spare: MediaMeasure | undefined
let measureModule: Promise<Module> | undefined

async function loadConversion() {
  const conversion = await import('./media-conversion.ts')
  convertModule ??= loadModule('convert')
  return { ...conversion, module: await convertModule }
}
let convertModule: Promise<Module> | undefined
