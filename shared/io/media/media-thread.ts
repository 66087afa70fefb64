import { type MessagePort, parentPort } from 'node:worker_threads'
import type { MediaLength, RangeFile } from './media-file.ts'
import type { DocumentSize } from './pdf.ts'

export type ToThread =
  | { kind: 'media'; job: number; bytes: number; maxCpuMs: number }
  | { kind: 'document'; job: number; bytes: Uint8Array; maxCpuMs: number }
  | { kind: 'data'; id: number; bytes: Uint8Array }
  | { kind: 'fault'; id: number }
export type FromThread =
  | { kind: 'begun'; job: number }
  | { kind: 'read'; job: number; id: number; start: number; end: number }
  | { kind: 'done'; job: number; result: MediaLength | DocumentSize | null }

type Result = MediaLength | DocumentSize | null
type Reading = { resolve(bytes: Uint8Array): void; reject(error: Error): void }

/**
 * Runs inside a thread: measures the files it receives, one after the other. The main thread reads media files on its
 * behalf.
 */
export function serve(): void {
  const port = parentPort as MessagePort
  const readings = new Map<number, Reading>()
  let reads = 0
  const send = (message: FromThread) => port.postMessage(message)
  const readFor = (job: number) => (start: number, end: number) =>
    new Promise<Uint8Array>((resolve, reject) => {
      readings.set(++reads, { resolve, reject })
      send({ kind: 'read', job, id: reads, start, end })
    })
  const run = async <T>(job: number, load: () => Promise<T>, work: (loaded: T) => Promise<Result>) => {
    const loaded = await load()
    // What is loaded once is not the time of a file.
    send({ kind: 'begun', job })
    const result = await work(loaded).catch(() => null)
    readings.clear()
    send({ kind: 'done', job, result })
  }
  port.on('message', (message: ToThread) => {
    if (message.kind === 'media') {
      const { job, bytes } = message
      return void run(job, loadMedia, readers => mediaLength(readers, { bytes, read: readFor(job) }))
    }
    if (message.kind === 'document')
      return void run(
        message.job,
        () => import('./pdf.ts'),
        ({ pdfSize }) => pdfSize(message.bytes),
      )
    const reading = readings.get(message.id)
    readings.delete(message.id)
    if (message.kind === 'data') reading?.resolve(message.bytes)
    else reading?.reject(new Error('the file cannot be read'))
  })
}

async function loadMedia() {
  const [{ waveLength }, { mp3Length }, { adtsLength }, { lengthByPackets }] = await Promise.all([
    import('./wave.ts'),
    import('./mp3.ts'),
    import('./adts.ts'),
    import('./media-packets.ts'),
  ])
  return { counters: [waveLength, mp3Length, adtsLength], lengthByPackets }
}

/** Counts plain samples and frames directly; all other formats are measured by their packets. */
async function mediaLength(
  { counters, lengthByPackets }: Awaited<ReturnType<typeof loadMedia>>,
  file: RangeFile,
): Promise<MediaLength | null> {
  for (const count of counters) {
    const length = await count(file)
    if (length !== undefined) return length
  }
  return lengthByPackets(file)
}
