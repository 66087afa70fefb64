import type { Recorded } from '../../emulators/emulator.ts'
import type { Json } from '../../emulators/slow-work.ts'

/**
 * The files that a request hands on to a provider, however it does: as addresses of the gateway, which are fetched, as
 * `data:` URIs, as plain base64, or as parts of a form.
 */
export async function filesIn({ headers, raw, body }: Recorded, gatewayUrl: string): Promise<Buffer[]> {
  const type = headers['content-type'] ?? ''
  if (type.startsWith('multipart/')) {
    const form = await new Response(new Uint8Array(raw), { headers: { 'content-type': type } }).formData()
    const blobs = [...form.values()].filter(value => typeof value !== 'string')
    return Promise.all(blobs.map(async blob => Buffer.from(await blob.bytes())))
  }
  const files = await Promise.all(textsIn(body).map(text => fileIn(text, gatewayUrl)))
  return files.filter(file => file !== null)
}

function textsIn(value: Json): string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : []
}

/** A picture's first bytes in base64: the kinds that are handed on so. */
const png = 'iVBORw0KGgo'

async function fileIn(text: string, gatewayUrl: string): Promise<Buffer | null> {
  if (text.startsWith(`${gatewayUrl}/`)) return Buffer.from(await (await fetch(text)).bytes())
  if (text.startsWith('data:')) return Buffer.from(text.slice(text.indexOf(',') + 1), 'base64')
  return text.startsWith(png) ? Buffer.from(text, 'base64') : null
}
