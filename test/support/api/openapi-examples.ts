import { textureFile } from '../../../shared/providers/sandbox/media/mesh-files.ts'
import { videoFile } from '../../../shared/providers/sandbox/media/video-file.ts'
import { chatLine } from '../batches/gateway.ts'
import { dataUri } from '../jobs/gateway.ts'
import { pdfOfPages } from '../media/documents.ts'
import { wav } from '../media/sounds.ts'

const contentTypes = {
  pdf: 'application/pdf',
  png: 'image/png',
  wav: 'audio/wav',
  mp4: 'video/mp4',
  jsonl: 'application/jsonl',
}
type Extension = keyof typeof contentTypes
type Files = Record<Extension, Uint8Array>

/** A file of each type that examples name. */
async function sampleFiles(): Promise<Files> {
  return {
    pdf: pdfOfPages(5),
    png: textureFile(),
    wav: wav(2_000),
    mp4: await videoFile({ seconds: 2 }),
    jsonl: Buffer.from(JSON.stringify(chatLine('a', 'gpt-4o-mini', 'Hello'))),
  }
}

/** An example of the document as a request: the files that it names are real ones. Those at example.com are in the body itself. */
export async function exampleRequest(type: string, example: unknown): Promise<Pick<RequestInit, 'body' | 'headers'>> {
  const files = await sampleFiles()
  if (type === 'multipart/form-data') return { body: formOf(example as Record<string, unknown>, files) }
  const inline = (_: string, extension: Extension) => dataUri(contentTypes[extension], files[extension])
  const body = JSON.stringify(example).replaceAll(/https:\/\/example\.com\/[\w-]+\.(\w+)/g, inline)
  return { body, headers: { 'content-type': type } }
}

function formOf(example: Record<string, unknown>, files: Files): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(example)) {
    const extension = /^[\w-]+\.(\w+)$/.exec(String(value))?.[1] as Extension | undefined
    if (extension && extension in files) {
      const blob = new Blob([new Uint8Array(files[extension])], { type: contentTypes[extension] })
      form.set(name, blob, String(value))
    } else form.set(name, String(value))
  }
  return form
}
