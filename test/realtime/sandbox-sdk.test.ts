import { tone } from '../../shared/providers/sandbox/realtime/sound.ts'
import { joined, model, soundOf } from '../support/realtime/sandbox-talk.ts'
import { openTalk, type RealtimeTalk } from '../support/realtime/sdk.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

let talk: RealtimeTalk

const gateway = useGateway(test)
const account = use(test, () => gateway.account())
test.beforeEach(async () => {
  talk = await openTalk(gateway.url, account.test, { model })
})
test.afterEach.always(() => talk.close())

test.serial('101 for the official SDK: a conversation in text', async t => {
  const { client } = talk
  client.send({ type: 'session.update', session: { type: 'realtime', output_modalities: ['text'] } })
  const { session } = await talk.heard('session.updated')
  t.like(session, { model, output_modalities: ['text'] })
  const content = [{ type: 'input_text' as const, text: 'Hello from the SDK' }]
  client.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content } })
  client.send({ type: 'response.create' })
  const { response } = await talk.heard('response.done')
  t.is(response.output[0].content[0].text, 'Hello from the SDK')
  t.is(joined(talk.events, 'response.output_text.delta'), 'Hello from the SDK')
  client.sendResponseCreate({
    type: 'response.create',
    response: { conversation: 'none', input: [{ type: 'item_reference', id: response.output[0].id }] },
  })
  t.is((await talk.heard('response.done', 2)).response.status, 'completed')
  t.deepEqual(talk.errors, [])
  client.send({ type: 'response.cancel' })
  await talk.heard('error')
  t.regex(talk.errors[0]!.message, /no active response found/)
})

test.serial('101 for the official SDK: a conversation in sound, turn by turn', async t => {
  const { client } = talk
  const sound = Buffer.concat([tone('audio/pcm', 1).bytes, Buffer.alloc(48_000)])
  for (let at = 0; at < sound.length; at += 4_800)
    client.send({ type: 'input_audio_buffer.append', audio: sound.toString('base64', at, at + 4_800) })
  const { response } = await talk.heard('response.done')
  const heard = soundOf(talk.events)
  t.true(sound.subarray(0, heard.length).equals(heard))
  t.is(response.output[0].content[0].transcript, `You said ${heard.length / 48_000} seconds of sound.`)
  t.deepEqual(talk.errors, [])
})
