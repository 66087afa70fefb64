import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { MediaLength } from './media-file.ts'
import type { MediaMeasure } from './media-length.ts'
import type { DocumentSize } from './pdf.ts'
import { SharedPiece } from './shared-piece.ts'

export type ToThread =
  | { kind: 'media'; job: number; bytes: number; maxCpuMs: number }
  | { kind: 'document'; job: number; bytes: Uint8Array; maxCpuMs: number }
/** The answer to a `read`; null if the file cannot be read. */
export type ReadBytes = { kind: 'data'; bytes: Uint8Array | null }
export type FromThread =
  | { kind: 'begun'; job: number }
  | { kind: 'read'; job: number; start: number; end: number }
  | { kind: 'done'; job: number; result: MediaLength | DocumentSize | null }

type Result = MediaLength | DocumentSize | null

/**
 * Runs inside a thread: measures the files it receives, one after the other. The main thread reads media files on its
 * behalf, while it waits.
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
    const { job, bytes } = message
    if (message.kind === 'document')
      return void run(
        job,
        () => import('./pdf.ts'),
        ({ pdfSize }) => pdfSize(message.bytes),
      )
    const read = (start: number, end: number) => piece.take(() => send({ kind: 'read', job, start, end }))
    void run(job, loadMeasures, take => take().length(bytes as number, read))
  })
}

/** Loads what gives a new `MediaMeasure` for each file, which it makes while no file waits for it. */
async function loadMeasures() {
  const { loadMeasure, MediaMeasure } = await import('./media-length.ts')
  const module = await loadMeasure()
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
