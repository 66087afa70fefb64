import test from 'ava'
import OpenAI, { toFile } from 'openai'
import { wav } from '../shared/providers/sandbox/media.ts'
import { textureFile } from '../shared/providers/sandbox/glb.ts'
import { freshStores, startGateway } from './support/gateway.ts'

test('smoke', async t => {
  const stores = await freshStores()
  const gateway = await startGateway(stores)
  const account = await gateway.account()
  const client = new OpenAI({ apiKey: account.test, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
  const images = await client.images.generate({ model: 'gpt-image-2', prompt: 'a cat', n: 2 })
  t.log(JSON.stringify(images).replace(/b64_json":"[^"]+/g, 'b64_json":"…'))
  const url = await client.images.generate({ model: 'gpt-image-2', prompt: 'a cat', response_format: 'url' })
  t.log(JSON.stringify(url), (await fetch(url.data![0]!.url!)).headers.get('content-type'))
  const edit = await client.images.edit({ model: 'gpt-image-2', prompt: 'a cat', image: [await toFile(textureFile(), 'a.png'), await toFile(textureFile(), 'b.png')] })
  t.log(edit.data!.length)
  const speech = await client.audio.speech.create({ model: 'tts-1', input: 'hello', voice: 'alloy', response_format: 'wav' })
  t.log(speech.status, speech.headers, (await speech.arrayBuffer()).byteLength)
  for (const response_format of ['json', 'text', 'srt', 'verbose_json', 'vtt'] as const) {
    const text = await client.audio.transcriptions.create({ model: 'whisper-1', file: await toFile(wav(3000), 'hello.wav'), response_format })
    t.log(text)
  }
  const stream = await client.audio.transcriptions.create({ model: 'gpt-4o-transcribe', file: await toFile(wav(3000), 'hello.wav'), stream: true })
  for await (const event of stream) t.log(event)
  t.log(await gateway.services.db.file.findMany())
  t.log(await client.audio.transcriptions.create({ model: 'whisper-1', file: await toFile(wav(3000).subarray(0, 20), 'hello.wav') }).catch(e => e))
  t.log(await client.images.edit({ model: 'gpt-image-2', prompt: 'a cat', image: await toFile(textureFile().subarray(0, 60), 'a.png') }).catch(e => e))
  t.deepEqual(await gateway.settled(), [])
  await gateway.close()
  await stores.drop()
})
