import { startOpenAiImages } from '../../emulators/openai-images.ts'
import { answersError, rawCall } from '../../support/api/edge.ts'
import { upstreamSecret } from '../../support/chat/gateway.ts'
import { png } from '../../support/media/png.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

/** Uploads at the largest size that their route takes, and one byte over it. */

const mib = 1024 * 1024
const model = 'gpt-image-1.5'
const prompt = 'A heron on a lake'

const emulator = use(test, startOpenAiImages)
const gateway = useGateway(test, () => ({ OPENAI_API_KEY: upstreamSecret, OPENAI_BASE_URL: `${emulator.url}/v1` }))

test.serial('200 an image of up to 50 MiB where the model takes it; 413 beyond', async t => {
  // What follows the last chunk of a PNG is no part of it.
  const large = (bytes: number) => new File([new Uint8Array(png(8)), new Uint8Array(bytes - png(8).length)], 'a.png')
  const { live } = await gateway.account()
  const edit = async (bytes: number) => {
    const form = new FormData()
    form.append('model', model)
    form.append('prompt', prompt)
    form.append('image', large(bytes))
    const headers = { authorization: `Bearer ${live}` }
    return fetch(`${gateway.url}/v1/images/edits`, { method: 'POST', headers, body: form })
  }
  t.is((await edit(12 * mib)).status, 200)
  t.is((await edit(50 * mib - 1)).status, 200)
  const over = await edit(50 * mib + 1)
  t.is(over.status, 413)
  t.like(((await over.json()) as { error: object }).error, { code: 'file_too_large', param: 'image' })
  const inline = `data:image/png;base64,${Buffer.from(await large(11 * mib).arrayBuffer()).toString('base64')}`
  const body = { model, prompt, images: [{ image_url: inline }] }
  t.is((await gateway.fetch('/v1/images/edits', { key: live, body })).status, 200)
})

test.serial('413 at the first byte over 200 MiB, with nothing left; 200 at the last one within', async t => {
  const { organisationId, live } = await gateway.account()
  const left = () => gateway.services.db.file.count({ where: { organisationId } })
  const head = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
  const tail = '\r\n--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--x--\r\n'
  const piece = Buffer.alloc(mib, `${'x'.repeat(1023)}\n`)
  // fetch would copy each piece.
  const post = async (...more: Buffer[]) => {
    const { status, headers, body } = await rawCall(gateway.url, {
      method: 'POST',
      path: '/v1/files',
      headers: { authorization: `Bearer ${live}`, 'content-type': 'multipart/form-data; boundary=x' },
      body: [Buffer.from(head), ...Array<Buffer>(200).fill(piece), ...more, Buffer.from(tail)],
    })
    const response = new Response(body, { status, headers: headers as Record<string, string> })
    return Object.defineProperty(response, 'url', { value: `${gateway.url}/v1/files` })
  }
  const { message } = await answersError(t, await post(Buffer.from('x')), 'file_too_large', 'file')
  t.regex(message, /200 MiB/)
  t.is(await left(), 0)
  const within = await post()
  t.is(within.status, 200)
  const { id, bytes } = (await within.json()) as { id: string; bytes: number }
  t.is(bytes, 200 * mib)
  t.is((await gateway.fetch(`/v1/files/${id}`, { key: live, method: 'DELETE' })).status, 200)
  t.is(await left(), 0)
})
