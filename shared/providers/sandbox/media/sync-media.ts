import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Usage } from '../../../base/usage.ts'
import type { SyncKind, WorkKinds } from '../../../kinds/index.ts'
import type { SoundFormat, SoundOutput } from '../../../kinds/sound.ts'
import { charactersOf } from '../../../kinds/sync-kind.ts'
import { tokenizer } from '../../../kinds/tokenizer.ts'
import type { Protocol, SyncAdapter, SyncCall } from '../../contract.ts'
import { executeDirective } from '../directives.ts'
import { images } from './images.ts'
import { readDocument } from './ocr.ts'
import { moderate, ranking } from './rankings.ts'
import { soundParts } from './sounds.ts'
import { transcript } from './transcripts.ts'

const charactersPerSecond = 15
const usualSongSeconds = 10
const usualEffectSeconds = 3
const tokensPerSecond = 25

/** The synchronous media of test keys; delays are limited to `firstByteTimeoutMs`. */
export function createSyncMedia(firstByteTimeoutMs: number): NonNullable<Protocol['synchronous']> {
  const adapter = <K extends SyncKind>(
    text: (input: WorkKinds[K]['input']) => string,
    make: (call: SyncCall<K>) => Promise<WorkKinds[K]['output']>,
  ): SyncAdapter<K> => ({
    async make(call) {
      await executeDirective(text(call.input), firstByteTimeoutMs, call.signal)
      return make(call)
    },
  })
  return {
    image: adapter<'image'>(({ prompt }) => prompt, images),
    speech: adapter<'speech'>(({ text, instructions }) => `${text}\n${instructions ?? ''}`, speech),
    transcription: adapter<'transcription'>(({ prompt }) => prompt ?? '', transcript),
    music: adapter<'music'>(({ prompt, lyrics }) => `${prompt}\n${lyrics ?? ''}`, ofLength(usualSongSeconds)),
    sfx: adapter<'sfx'>(({ prompt }) => prompt, ofLength(usualEffectSeconds)),
    rerank: adapter<'rerank'>(({ query }) => query, ranking),
    moderation: adapter<'moderation'>(({ input }) => (typeof input === 'string' ? input : ''), moderate),
    ocr: adapter<'ocr'>(({ options }) => options.document_annotation_prompt ?? '', readDocument),
  }
}

/** Audio of the requested duration, or the default one within the model's limits. */
function ofLength(usualSeconds: number) {
  return async ({ input, target }: SyncCall<'music'> | SyncCall<'sfx'>): Promise<SoundOutput> => {
    const { min_duration_s: min = 0, max_duration_s: max = usualSeconds } = target.model.kind ?? {}
    return sound(input.format, input.durationS ?? Math.max(min, Math.min(max, usualSeconds)))
  }
}

async function speech({ input: { text, instructions, speed, format } }: SyncCall<'speech'>): Promise<SoundOutput> {
  const seconds = charactersOf(text) / charactersPerSecond / speed
  const prompt = (await tokenizer()).count(text + (instructions ?? ''))
  const audioTokens = Math.ceil(seconds * tokensPerSecond)
  return sound(format, seconds, {
    prompt_tokens: prompt,
    completion_tokens: audioTokens,
    total_tokens: prompt + audioTokens,
    completion_tokens_details: { audio_tokens: audioTokens },
  })
}

function sound(format: SoundFormat, seconds: number, usage: Usage | null = null): SoundOutput {
  return { sound: { stream: oneByOne(soundParts(format, seconds)) }, usage: () => usage }
}

/** One part per turn of the event loop, so that long audio does not block others. */
async function* oneByOne(parts: Iterable<Buffer>): AsyncIterable<Uint8Array> {
  for (const part of parts) {
    yield part
    await nextTurn()
  }
}
