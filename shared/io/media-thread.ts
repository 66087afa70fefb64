import { type MessagePort, parentPort } from 'node:worker_threads'
import { lengthByPackets, type MediaLength } from './media-packets.ts'

export type ToThread =
  | { kind: 'measure'; file: number; bytes: number }
  | { kind: 'data'; id: number; bytes: Uint8Array }
  | { kind: 'fault'; id: number }
export type FromThread =
  | { kind: 'read'; file: number; id: number; start: number; end: number }
  | { kind: 'length'; file: number; length: MediaLength | null }

type Reading = { resolve(bytes: Uint8Array): void; reject(error: Error): void }

/** Inside a thread: measures the files that it is told of, one after the other. The other side reads for it. */
export function serve(): void {
  const port = parentPort as MessagePort
  const readings = new Map<number, Reading>()
  let reads = 0
  const send = (message: FromThread) => port.postMessage(message)
  const measure = async (file: number, bytes: number) => {
    const read = (start: number, end: number) =>
      new Promise<Uint8Array>((resolve, reject) => {
        readings.set(++reads, { resolve, reject })
        send({ kind: 'read', file, id: reads, start, end })
      })
    const length = await lengthByPackets({ bytes, read }).catch(() => null)
    readings.clear()
    send({ kind: 'length', file, length })
  }
  port.on('message', (message: ToThread) => {
    if (message.kind === 'measure') return void measure(message.file, message.bytes)
    const reading = readings.get(message.id)
    readings.delete(message.id)
    if (message.kind === 'data') reading?.resolve(message.bytes)
    else reading?.reject(new Error('the file cannot be read'))
  })
}
