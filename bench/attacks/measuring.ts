import { waveHeader } from '../../shared/io/media/wave.ts'
import { mp4Bomb } from '../../test/support/media/bombs.ts'
import { type Attack, atOnce, type Call, send } from './attack.ts'

// Attacks by media that take long to measure.

const rateHz = 8_000
const samples = Buffer.alloc(rateHz * 2)

/** A form with an audio file to transcribe. */
function transcription(filename: string, type: string, file: Buffer): Call {
  const part = (name: string, more: string, value: Buffer) =>
    Buffer.concat([
      Buffer.from(`--b\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n`),
      value,
      Buffer.from('\r\n'),
    ])
  const body = Buffer.concat([
    part('model', '', Buffer.from('whisper-1')),
    part('file', `; filename="${filename}"\r\nContent-Type: ${type}`, file),
    Buffer.from('--b--\r\n'),
  ])
  return { path: '/v1/audio/transcriptions', headers: { 'content-type': 'multipart/form-data; boundary=b' }, body }
}

const slowFiles: Attack = {
  name: 'slow-media',
  what: '10 organisations × 2 files that take long to measure',
  seconds: 45,
  victim: transcription('a.wav', 'audio/wav', Buffer.concat([waveHeader(rateHz, samples.length), samples])),
  async run(world, signal) {
    const bomb = transcription('a.mp4', 'video/mp4', mp4Bomb('ctts'))
    const keys = await atOnce(10, () => world.newKey())
    await atOnce(20, async index => {
      while (!signal.aborted) await send(world.port, keys[index % 10]!, bomb, signal).catch(() => {})
    })
  },
}

export const measuringAttacks = [slowFiles]
