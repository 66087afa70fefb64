import { type MessagePort, parentPort } from 'node:worker_threads'
import type { MediaLength, RangeFile } from './media-file.ts'
import type { DocumentSize } from './pdf.ts'

export type ToThread =
  | { kind: 'media'; job: number; bytes: number }
  | { kind: 'document'; job: number; bytes: Uint8Array }
  | { kind: 'data'; id: number; bytes: Uint8Array }
  | { kind: 'fault'; id: number }
export type FromThread =
  | { kind: 'read'; job: number; id: number; start: number; end: number }
  | { kind: 'done'; job: number; result: MediaLength | DocumentSize | null }

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
  const run = async (job: number, work: () => Promise<MediaLength | DocumentSize | null>) => {
    const result = await work().catch(() => null)
    readings.clear()
    send({ kind: 'done', job, result })
  }
  port.on('message', (message: ToThread) => {
    if (message.kind === 'media') {
      const { job, bytes } = message
      return void run(job, () => mediaLength({ bytes, read: readFor(job) }))
    }
    if (message.kind === 'document') return void run(message.job, () => documentSize(message.bytes))
    const reading = readings.get(message.id)
    readings.delete(message.id)
    if (message.kind === 'data') reading?.resolve(message.bytes)
    else reading?.reject(new Error('the file cannot be read'))
  })
}

/** Counts plain samples and frames directly; all other formats are measured by their packets. */
async function mediaLength(file: RangeFile): Promise<MediaLength | null> {
  const { waveLength } = await import('./wave.ts')
  const wave = await waveLength(file)
  if (wave !== undefined) return wave
  const { mp3Length } = await import('./mp3.ts')
  const mp3 = await mp3Length(file)
  if (mp3 !== undefined) return mp3
  const { adtsLength } = await import('./adts.ts')
  const adts = await adtsLength(file)
  if (adts !== undefined) return adts
  const { lengthByPackets } = await import('./media-packets.ts')
  return lengthByPackets(file)
}

async function documentSize(bytes: Uint8Array): Promise<DocumentSize | null> {
  const { pdfSize } = await import('./pdf.ts')
  return pdfSize(bytes)
}
