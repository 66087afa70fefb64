import { textureFile } from '../../../shared/providers/sandbox/media/mesh-files.ts'
import { soundFile } from '../../../shared/providers/sandbox/media/sounds.ts'

const fileOf = (bytes: Uint8Array, name: string, type: string) => new File([new Uint8Array(bytes)], name, { type })

export const cat = () => fileOf(textureFile(), 'cat.png', 'image/png')
export const sentence = () => fileOf(soundFile('wav', 1), 'sentence.wav', 'audio/wav')
export const batchLine = () => fileOf(Buffer.from(JSON.stringify(line)), 'requests.jsonl', 'application/jsonl')

const line = {
  custom_id: 'a',
  method: 'POST',
  url: '/v1/chat/completions',
  body: { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] },
}

/** The JSON of an event stream, without its last event, `[DONE]`. */
export async function readEvents(stream: ReadableStream<Uint8Array>): Promise<unknown[]> {
  const text = await new Response(stream).text()
  const data = [...text.matchAll(/^data: (.+)$/gm)].map(([, json]) => json!)
  if (data.pop() !== '[DONE]') throw new Error('the stream has no end')
  return data.map(json => JSON.parse(json))
}
