import type { Usage } from '../../../shared/base/usage.ts'
import { type Bytes, bytesOf } from '../../../shared/io/bytes.ts'
import type { MusicInput } from '../../../shared/kinds/music.ts'
import type { SoundFormat, SoundOutput } from '../../../shared/kinds/sound.ts'
import type { SpeechInput } from '../../../shared/kinds/speech.ts'
import { awaitFirstFrame } from '../../../shared/media/first-frame.ts'
import { performWork } from '../../../shared/media/work.ts'
import { gemini } from '../../../shared/providers/adapters/gemini/protocol.ts'
import type { SyncAdapter, SyncCall } from '../../../shared/providers/contract.ts'
import { connectionTo } from '../jobs/queued-adapter.ts'
import { inlineFiles, syncCallOf } from '../media/adapter.ts'

/** Calls of Gemini's voices, the newer and the older way, and of Lyria. */

export type Way = 'interactions' | 'generateContent'
export const ways: Way[] = ['interactions', 'generateContent']
export const newerVoice = 'gemini-3.8-flash-tts'
export const olderVoice = 'gemini-2.5-flash-preview-tts'
export const text = 'Have a wonderful day! And another one after it.'
/** How long the emulator speaks. */
export const textSeconds = text.length / 15

export function speechCall(input: Partial<SpeechInput> = {}, way: Way = 'interactions'): SyncCall<'speech'> {
  const usual: SpeechInput = { text, voice: 'Kore', format: 'wav', speed: 1, instructions: null }
  const call = syncCallOf<'speech'>('gemini', newerVoice, { ...usual, ...input })
  if (way === 'interactions') return call
  const { traits: _, ...deployment } = call.target.deployment
  return { ...call, target: { ...call.target, deployment: { ...deployment, upstream_model: olderVoice } } }
}

export function musicCall(input: Partial<MusicInput> = {}): SyncCall<'music'> {
  const usual: MusicInput = { prompt: 'A waltz', lyrics: null, durationS: null, instrumental: false, format: 'mp3' }
  return syncCallOf<'music'>('gemini', 'lyria-3-clip', { ...usual, ...input })
}

/** Has a call done by an emulator. */
export function made<K extends 'speech' | 'music'>(kind: K, url: string, call: SyncCall<K>): Promise<SoundOutput> {
  const adapter = gemini.synchronous![kind] as unknown as SyncAdapter<K>
  return performWork<K>({
    adapter,
    call,
    connection: connectionTo('gemini', gemini, url),
    files: inlineFiles(call),
    maxMs: 10_000,
  }) as Promise<SoundOutput>
}

/** All sound of an output, which must begin as the engine wants it. */
export async function heard(
  { sound, usage }: SoundOutput,
  format: SoundFormat,
): Promise<{ bytes: Buffer; usage: Usage | null }> {
  if ('url' in sound) throw new Error('there is no file')
  const source: Bytes = 'stream' in sound ? sound.stream : bytesOf(sound.bytes)
  const { body } = await awaitFirstFrame(source, format)
  const parts: Uint8Array[] = []
  for await (const part of body) parts.push(part)
  return { bytes: Buffer.concat(parts), usage: usage() }
}
