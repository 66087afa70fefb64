import type { Account } from '../../support/gateway.ts'
import { wav } from '../../support/media/media-files.ts'
import { mp4Stating } from '../../support/media/sample-tables.ts'
import { test } from '../../support/test.ts'
import { useGateway } from '../../support/use.ts'

const gateway = useGateway(test)

async function transcribe(key: string, bytes: Buffer, name: string): Promise<string> {
  const form = new FormData()
  form.set('file', new Blob([new Uint8Array(bytes)]), name)
  form.set('model', 'whisper-1')
  const headers = { authorization: `Bearer ${key}` }
  const response = await fetch(`${gateway.url}/v1/audio/transcriptions`, { method: 'POST', headers, body: form })
  return `${response.status} ${await response.text()}`
}

test('200 for a second of sound while ten organisations send files that take forever, each another one', async t => {
  const accounts = await Promise.all(Array.from({ length: 12 }, () => gateway.account()))
  const [victim, payer, ...attackers] = accounts as [Account, Account, ...Account[]]
  let stopped = false
  let bombs = 0
  const bomb = () => mp4Stating('ctts', 0xffff_0000 + bombs++)
  await Promise.all(attackers.map(({ test: key }) => transcribe(key, bomb(), 'a.mp4')))
  const loops = attackers.flatMap(({ test: key }) =>
    [1, 2].map(async () => {
      while (!stopped) t.notRegex(await transcribe(key, bomb(), 'a.mp4'), /^200/)
    }),
  )
  for (let n = 0; n < 3; n++) t.regex(await transcribe(victim.test, wav(1), 'a.wav'), /^200/)
  // No provider has a model for live keys here: the file is measured, and then there is none to transcribe it.
  t.notRegex(await transcribe(payer.live, wav(1), 'a.wav'), /being measured|cannot be read/)
  stopped = true
  await Promise.all(loops)
  t.true(bombs > attackers.length)
})
